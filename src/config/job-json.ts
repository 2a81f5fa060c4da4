import { DEEPEST_JSON, isTooDeep, MAX_JSON_BYTES } from '../child/json-limits.ts';

/** What was expected where JSON text is more than a job may hold; null: it is not. */
export function describeExcess(text: string): string | null {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_JSON_BYTES) {
    return `JSON of at most 1 MiB, found ${bytes} bytes; put what is large into a file and name that`;
  }
  return isTooDeep(text) ? `JSON nested at most ${DEEPEST_JSON} deep` : null;
}
