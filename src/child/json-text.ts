import { cutMessage } from './describe-error.ts';
import { DEEPEST_JSON, isTooDeep, MAX_JSON_BYTES } from './json-limits.ts';

/** The text, or why there is none: the end of a sentence that begins with what it is of. */
export type JsonText = { readonly text: string } | { readonly problem: string };

/** Writes a value as JSON. What JSON has no word for at all, such as a function, is refused, too. */
export function toJsonText(value: unknown): JsonText {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    return { problem: `cannot be written as JSON: ${firstLine(error)}` };
  }
  if (text === undefined) return { problem: `cannot be written as JSON: it is ${nameOf(value)}` };
  const bytes = text.length * 3 > MAX_JSON_BYTES ? Buffer.byteLength(text) : 0;
  if (bytes > MAX_JSON_BYTES) {
    return { problem: `is ${bytes} bytes of JSON, and at most ${MAX_JSON_BYTES} are kept` };
  }
  if (!isTooDeep(text)) return { text };
  return { problem: `is JSON nested deeper than ${DEEPEST_JSON}, and no deeper is kept` };
}

/** V8 draws the circle in further lines. */
function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return cutMessage(message.split('\n', 1)[0]);
}

function nameOf(value: unknown): string {
  return value === undefined ? 'undefined' : `a ${typeof value}`;
}
