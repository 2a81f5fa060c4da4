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

/** Like `printable`, for the output of a script: a line that was written over is shown in its last state. */
export function printableOutput(text: string): string {
  if (!text.includes('\r')) return printable(text);
  const lines = text.split('\n').map((line) => readStates(line).last);
  return printable(lines.join('\n'));
}

/**
 * Tells what carriage returns leave of a line: the last state of a progress bar. Returns at the end of the line have
 * nothing after them that could write over it.
 */
export function readStates(line: string): { readonly overwritten: string; readonly last: string } {
  let end = line.length;
  while (end > 0 && line[end - 1] === '\r') end -= 1;
  const start = end === 0 ? 0 : line.lastIndexOf('\r', end - 1) + 1;
  return { overwritten: line.slice(0, start), last: line.slice(start, end) };
}

/** The line in the place of bytes of an output that are left out. */
export function omission(bytes: number): string {
  return `\n[… ${bytes} bytes left out …]\n`;
}

/** How many bytes a line of an output stands for; null: it is a line like others. */
export function bytesLeftOut(line: string): number | null {
  const bytes = /^\[… (\d{1,15}) bytes left out …\]$/.exec(line)?.[1];
  return bytes === undefined ? null : Number(bytes);
}

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

/** The last line of an output that is not blank, safe to show. */
export function lastLine(text: string): string {
  const line = printableOutput(text)
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
 * Makes the output of a script safe to show as it comes. A piece may end inside a terminal sequence: the possible
 * beginning of one waits for the rest of its line, as does a line that is written over; everything else is passed on
 * at once. Text that was passed on stays: text that is written over it stands on the next line.
 */
export async function* toPrintableLines(pieces: AsyncIterable<string> | Iterable<string>): AsyncGenerator<string> {
  let held = '';
  let isWithinLine = false;
  const show = (text: string): string => {
    const isOver = isWithinLine && writesOver.test(text);
    isWithinLine = !text.endsWith('\n');
    return `${isOver ? '\n' : ''}${printableOutput(text)}`;
  };
  for await (const piece of pieces) {
    const text = held + piece;
    const lineStart = text.lastIndexOf('\n') + 1;
    const open = forgetStates(text.slice(lineStart));
    const end = findSafeEnd(open);
    const safe = text.slice(0, lineStart) + open.slice(0, end);
    if (safe !== '') yield show(safe);
    held = open.slice(end);
  }
  if (held !== '') yield show(held);
}

/** A carriage return in the first line, and text after it. */
const writesOver = /^[^\r\n]*\r+[^\r\n]/;

/** A line under way without the states that are written over: hours of a progress bar are not kept. */
function forgetStates(line: string): string {
  if (!line.includes('\r')) return line;
  return `\r${readStates(line).last}${line.endsWith('\r') ? '\r' : ''}`;
}

/** Up to where a line can be shown that is not complete. */
function findSafeEnd(line: string): number {
  const begun = line.includes('\r') ? 0 : line.search(sequenceStart);
  return begun === -1 || line.length - begun > LONGEST_HELD ? line.length : begun;
}

/** ESC or CSI. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const sequenceStart = /[\x1b\x9b]/;
