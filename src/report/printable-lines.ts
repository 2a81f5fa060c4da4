import { printable } from './printable.ts';

/** What might be a terminal sequence is held back no longer than this. */
const LONGEST_HELD = 4096;

/**
 * Makes a stream of pieces safe to show. A piece can end inside a terminal sequence: what may be
 * the beginning of one waits for the rest of its line, everything else is handed on at once.
 */
export async function* toPrintableLines(
  pieces: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<string> {
  let held = '';
  for await (const piece of pieces) {
    const text = held + piece;
    const end = findSafeEnd(text);
    if (end > 0) yield printable(text.slice(0, end));
    held = text.slice(end);
  }
  if (held !== '') yield printable(held);
}

/** Everything up to the last line feed, and the line after it unless a sequence begins there. */
function findSafeEnd(text: string): number {
  const lineStart = text.lastIndexOf('\n') + 1;
  const begun = text.slice(lineStart).search(sequenceStart);
  if (begun === -1 || text.length - lineStart - begun > LONGEST_HELD) return text.length;
  return lineStart + begun;
}

/** ESC or CSI, or a carriage return whose line feed is still to come. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const sequenceStart = /[\x1b\x9b]|\r$/;
