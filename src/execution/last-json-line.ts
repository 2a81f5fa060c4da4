import { fstatSync, readSync } from 'node:fs';
import { MAX_JSON_BYTES } from '../child/json-limits.ts';

/** What a program's last line is worth as its result. */
export type LastLine = { readonly result: string | null; readonly warning: string | null };

const PIECE_BYTES = 64 * 1024;
const nothing: LastLine = { result: null, warning: null };

/**
 * The last line of an output that is not empty, where it is a JSON object or array: a number or a
 * word may stand there by chance.
 */
export function readLastJsonLine(fd: number): LastLine {
  const line = readLastLine(fd);
  if (!/^[[{]/.test(line)) return nothing;
  if (Buffer.byteLength(line) > MAX_JSON_BYTES) return { result: null, warning: TOO_LONG };
  try {
    JSON.parse(line);
    return { result: line, warning: null };
  } catch {
    return nothing;
  }
}

const TOO_LONG = `its last line is longer than a result may be (${MAX_JSON_BYTES} bytes), and was not taken for one`;

/** Without white space around it; what is longer than a result may be is cut off in front. */
function readLastLine(fd: number): string {
  const { size } = fstatSync(fd);
  let text = Buffer.alloc(0);
  for (let start = size; start > 0 && text.length <= MAX_JSON_BYTES + PIECE_BYTES; ) {
    const length = Math.min(PIECE_BYTES, start);
    start -= length;
    const piece = Buffer.alloc(length);
    readSync(fd, piece, 0, length, start);
    text = Buffer.concat([piece, text]);
    const trimmed = text.toString('latin1').trimEnd();
    const lineFeed = trimmed.lastIndexOf('\n');
    if (lineFeed !== -1)
      return text
        .subarray(lineFeed + 1)
        .toString('utf8')
        .trim();
  }
  return text.toString('utf8').trim();
}
