import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

/** What a report holds besides the page. */
export interface HeldAnswers {
  readonly answers: Readonly<Record<string, unknown>>;
  readonly runs: readonly { readonly id: number; readonly script: string }[];
  readonly details: Readonly<Record<string, unknown>>;
  readonly runsSince: string | null;
  readonly dueAt: string | null;
}

export function readReport(path: string): HeldAnswers {
  const [, packed = ''] = /<script[^>]* id="data">([^<]*)<\/script>/.exec(readFileSync(path, 'utf8')) ?? [];
  return JSON.parse(gunzipSync(Buffer.from(packed, 'base64')).toString());
}
