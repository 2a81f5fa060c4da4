/** What a job's row holds of data or of a result. */
export const MAX_JSON_BYTES = 1024 * 1024;

/** SQLite takes nothing deeper for JSON. */
export const DEEPEST_JSON = 1000;

const [quote, backslash] = [0x22, 0x5c];
const opening: readonly number[] = [0x5b, 0x7b];
const closing: readonly number[] = [0x5d, 0x7d];

/** Of text that is JSON. */
export function isTooDeep(json: string): boolean {
  // Mostly it is too short to be looked through.
  if (json.length <= 2 * DEEPEST_JSON) return false;
  let depth = 0;
  let isInText = false;
  for (let index = 0; index < json.length; index += 1) {
    const code = json.charCodeAt(index);
    if (code === quote) isInText = !isInText;
    else if (isInText) index += code === backslash ? 1 : 0;
    else if (opening.includes(code)) depth += 1;
    else if (closing.includes(code)) depth -= 1;
    if (depth > DEEPEST_JSON) return true;
  }
  return false;
}
