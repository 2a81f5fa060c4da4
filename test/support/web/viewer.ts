import { onTestFinished } from 'vitest';
import { until } from '../until.ts';

/** Somebody who follows the changes of a dashboard. */
export interface Viewer {
  /** All that has come by now. */
  text(): string;
  versions(): readonly string[];
  /** Waits for a version that was not there when it was asked. */
  nextVersion(what: string, withinMs?: number): Promise<string>;
  /** Settles once the server has ended the stream. */
  readonly ended: Promise<void>;
}

/** Follows the changes of the dashboard at that address, until the test is over. */
export async function openViewer(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Viewer> {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const response = await fetch(`${url}api/events`, { headers, signal: leaving.signal });
  return readViewer(response);
}

/** The same, of an answer that is there. */
export function readViewer(response: Response): Viewer {
  let text = '';
  const read = async (): Promise<void> => {
    for await (const piece of (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
      text += piece;
    }
  };
  const ended = read().catch(() => undefined);
  const versions = () =>
    Array.from(text.matchAll(/^event: changed\ndata: (.+)$/gm), ([, version]) => version as string);
  return {
    text: () => text,
    versions,
    nextVersion: async (what, withinMs) => {
      const before = versions().length;
      await until(what, () => versions().length > before, withinMs);
      return versions().at(-1) as string;
    },
    ended,
  };
}
