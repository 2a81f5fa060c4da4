import stripAnsi from 'strip-ansi';

/**
 * Makes text of a script or a file name safe to show: removes terminal sequences (colours, cursor moves, titles,
 * links), and makes every other control character visible, as well as characters that reverse or hide text. Line feeds
 * and tabs stay.
 */
export function printable(text: string): string {
  return withoutSequences(text.replaceAll('\r\n', '\n')).replace(unsafe, makeVisible);
}

/**
 * Text as a reader sees it, for searching words in it. Everything that {@link printable} removes or makes visible is
 * removed. A line feed or a carriage return stands at each place where a terminal begins a line anew.
 */
export function plainText(text: string): string {
  if (!mayBeUnplain.test(text)) return text;
  return withoutSequences(text.replace(lineStarts, '\r')).replace(unsafe, (character) =>
    character === '\r' ? character : '',
  );
}

/** A sequence ends in its own line; otherwise one without an end would swallow the lines after it. */
function withoutSequences(text: string): string {
  // Each line is searched by itself: a pattern for whole lines takes time quadratic in a line's length.
  if (!beginsSequence.test(text)) return text;
  // `util.stripVTControlCharacters` does not do: in Node 22 it leaves parts of terminal titles.
  const lines = text.split('\n').map((line) => (beginsSequence.test(line) ? stripAnsi(line) : line));
  return lines.join('\n');
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const beginsSequence = /[\x1b\x80-\x9f]/;

/** Control characters except tabs and line ends, and all that is not ASCII. */
const mayBeUnplain = /[^\t\n\r -~]/;

/** Moves to the first column or to another line; also the zeros of a file that was cut. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const lineStarts = /[\0\v\f\x85]|(?:\x1b\[|\x9b)(?:[01]?G|\d*[EF]|[\d;]*[Hf])|\x1b[EDM]/g;

/** Like `printable`, for one line of a table or a sentence: makes line feeds and tabs visible, too. */
export function printableLine(text: string): string {
  return printable(text).replace(/[\n\t]/g, makeVisible);
}

/** Rewrites the UTC instants in a sentence of the log in the reader's format. */
export function withInstants(sentence: string, write: (atMs: number) => string): string {
  return sentence.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, (text) => write(Date.parse(text)));
}

/** Capitalizes the first letter: `the queue` → `The queue`. */
export function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** The first line of a text that is not blank, safe to show. */
export function firstLine(text: string): string {
  const line = printable(text)
    .split('\n')
    .find((each) => each.trim() !== '');
  return printableLine(line?.trim() ?? '');
}

/** The last line of a text that is not blank, safe to show. */
export function lastLine(text: string): string {
  const line = printable(text)
    .split('\n')
    .findLast((each) => each.trim() !== '');
  return printableLine(line?.trim() ?? '');
}

/** The beginning of a text, of at most this many UTF-16 units; it ends in `…` if it was cut. */
export function keepStart(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** The end of a text, of at most this many UTF-16 units; it begins with `…` if it was cut. */
export function keepEnd(text: string, most: number): string {
  if (text.length <= most) return text;
  return `…${text.slice(1 - most).replace(/^[\udc00-\udfff]/, '')}`;
}

/** Escapes text for HTML, and for services that take some of its tags. */
export function escapeHtml(text: string): string {
  const names: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": '#39' };
  return text.replace(/[&<>"']/g, (character) => `&${names[character]};`);
}

/** C0 without tab and line feed, DEL, C1, bidirectional controls, invisible characters, unpaired surrogates. */
const unsafe =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /[\0-\x08\x0b-\x1f\x7f-\x9f\p{Bidi_Control}\u200b\u2028\u2029\u2060\ufeff\p{Surrogate}]/gu;

/** Unicode has a picture for each C0 character: `␛`; the others show their number. */
function makeVisible(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return '␡';
  return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
}

/** Longest text, in characters, that is held back because it may be a terminal sequence. */
const LONGEST_HELD = 4096;

/**
 * Makes a stream of pieces safe to show. A piece may end inside a terminal sequence: the possible beginning of one
 * waits for the rest of its line, everything else is passed on at once.
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

/** The end of all complete lines, and of the line after them unless a sequence begins in it. */
function findSafeEnd(text: string): number {
  const lineStart = text.lastIndexOf('\n') + 1;
  const begun = text.slice(lineStart).search(sequenceStart);
  if (begun === -1 || text.length - lineStart - begun > LONGEST_HELD) return text.length;
  return lineStart + begun;
}

/** ESC or CSI, or a carriage return whose line feed may follow. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const sequenceStart = /[\x1b\x9b]|\r$/;
