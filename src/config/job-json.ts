import { DEEPEST_JSON, isTooDeep } from '../child/json-depth.ts';

const LARGEST_BYTES = 1024 * 1024;

/** What was expected where JSON text is more than a job may hold; null: it is not. */
export function describeExcess(text: string): string | null {
  const bytes = Buffer.byteLength(text);
  if (bytes > LARGEST_BYTES) {
    return `JSON of at most 1 MiB, found ${bytes} bytes; put what is large into a file and name that`;
  }
  return isTooDeep(text) ? `JSON nested at most ${DEEPEST_JSON} deep` : null;
}
