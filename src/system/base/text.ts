import stripAnsi from 'strip-ansi';

/**
 * Text that a script or a file name brought in, safe to show: terminal sequences (colours, cursor
 * moves, titles, links) are removed, every other control character is made visible, and so are the
 * characters that reverse or hide text. Line feeds and tabs stay.
 */
export function printable(text: string): string {
  return withoutSequences(text.replaceAll('\r\n', '\n')).replace(unsafe, makeVisible);
}

/**
 * Text as its reader takes it in, for whatever looks for words in it: what {@link printable} removes is missing here,
 * too, and so is what it makes visible. Wherever a terminal begins a line anew, a line feed or a carriage return stands.
 */
export function plainText(text: string): string {
  if (!mayBeUnplain.test(text)) return text;
  return withoutSequences(text.replace(lineStarts, '\r')).replace(unsafe, (character) =>
    character === '\r' ? character : '',
  );
}

/** A sequence ends in the line that it begins in: one without an end would take the lines after it along. */
function withoutSequences(text: string): string {
  // Looked for in each line by itself: a pattern of whole lines takes as long as the square of a line's length.
  if (!beginsSequence.test(text)) return text;
  // Not `util.stripVTControlCharacters`: Node 22's leaves parts of terminal titles behind.
  const lines = text.split('\n').map((line) => (beginsSequence.test(line) ? stripAnsi(line) : line));
  return lines.join('\n');
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const beginsSequence = /[\x1b\x80-\x9f]/;

/** Control characters but tabs and line ends, and whatever is not ASCII. */
const mayBeUnplain = /[^\t\n\r -~]/;

/** Moves to the first column, or to another line; zeros that stand where a file was cut. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const lineStarts = /[\0\v\f\x85]|(?:\x1b\[|\x9b)(?:[01]?G|\d*[EF]|[\d;]*[Hf])|\x1b[EDM]/g;

/** The same for one line of a table or a sentence: line feeds and tabs are made visible as well. */
export function printableLine(text: string): string {
  return printable(text).replace(/[\n\t]/g, makeVisible);
}

/** A sentence of the log, which has its instants in UTC, with them as the reader has them. */
export function withInstants(sentence: string, write: (atMs: number) => string): string {
  return sentence.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, (text) => write(Date.parse(text)));
}

/** As a sentence begins: `the queue` → `The queue`. */
export function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** The first line of a text that says something, safe to show. */
export function firstLine(text: string): string {
  const line = printable(text)
    .split('\n')
    .find((each) => each.trim() !== '');
  return printableLine(line?.trim() ?? '');
}

/** The last line of a text that says something, safe to show. */
export function lastLine(text: string): string {
  const line = printable(text)
    .split('\n')
    .findLast((each) => each.trim() !== '');
  return printableLine(line?.trim() ?? '');
}

/** C0 without tab and line feed, DEL and C1, bidirectional controls, invisible ones, half characters. */
const unsafe =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /[\0-\x08\x0b-\x1f\x7f-\x9f\p{Bidi_Control}\u200b\u2028\u2029\u2060\ufeff\p{Surrogate}]/gu;

/** C0 has pictures of its own in Unicode, one for each: `␛`; the others show their number. */
function makeVisible(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return '␡';
  return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
}

/** What might be a terminal sequence is held back no longer than this. */
const LONGEST_HELD = 4096;

/**
 * Makes a stream of pieces safe to show. A piece can end inside a terminal sequence: what may be
 * the beginning of one waits for the rest of its line, everything else is handed on at once.
 */
export async function* toPrintableLines(pieces: AsyncIterable<string> | Iterable<string>): AsyncGenerator<string> {
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
