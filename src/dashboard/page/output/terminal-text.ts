import Anser from 'anser';
import { bytesLeftOut, printable, readStates } from '../../../system/base/text.ts';

/** A piece of a line that looks the same from its beginning to its end. */
export interface StyledSpan {
  readonly text: string;
  /** Classes of the style; empty: it looks as all else. */
  readonly look: string;
  /** As CSS has it: one of the page's own for those that have a name, `rgb(…)` where a script has mixed its own. */
  readonly color: string | null;
  readonly background: string | null;
}

/** A line that stands for what is left out. */
interface Gap {
  readonly index: number;
  readonly bytes: number;
}

/** A longer line is shown as several. */
const LONGEST_LINE = 4000;

/** Colours and the like; all other sequences are removed, as they could do anything to a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is what it looks for
const colors = /\x1b\[[\d;]*m/g;

/**
 * Lines of a script's output, as it arrives. A line that is written over behind a carriage return has its last state,
 * in the colours of before.
 *
 * @example
 * ```ts
 * const output = new TerminalText();
 * output.append('\x1b[31mred');
 * output.append(' and more\n');
 * output.spansOf(0); // [{ text: 'red and more', look: 'ansi-red', … }]
 * ```
 */
export class TerminalText {
  readonly #lines: string[] = [''];
  /** Those that continue the one before, as that is too long; ascending. */
  readonly #continued: number[] = [];
  /** A carriage return at the end. */
  #held = '';
  /** The colours that a line begins with; without an entry: none. */
  readonly #begun = new Map<number, string>();
  readonly #gaps: Gap[] = [];

  /** How many lines there are. The last one is empty where the text ends with a line feed. */
  get count(): number {
    return this.#lines.at(-1) === '' ? this.#lines.length - 1 : this.#lines.length;
  }

  /** The places at which the runner left something out. */
  get gaps(): readonly Gap[] {
    return this.#gaps;
  }

  /** The number of a line, from 1 on; null: it continues the one before. */
  numberOf(index: number): number | null {
    let before = 0;
    while ((this.#continued[before] ?? Number.POSITIVE_INFINITY) < index) before += 1;
    return this.#continued[before] === index ? null : index + 1 - before;
  }

  /** The line of this number. */
  indexOf(number: number): number {
    let index = number - 1;
    for (const continued of this.#continued) {
      if (continued > index) break;
      index += 1;
    }
    return index;
  }

  append(text: string): void {
    const all = this.#held + text;
    // Its line feed may still come.
    this.#held = all.endsWith('\r') ? '\r' : '';
    const [first = '', ...others] = all.slice(0, all.length - this.#held.length).split('\n');
    this.#addToLast(first);
    for (const line of others) {
      this.#noteGap();
      this.#startLine();
      this.#addToLast(line);
    }
  }

  /** The text of a line, without colours. */
  plain(index: number): string {
    return printable((this.#lines[index] ?? '').replace(colors, ''));
  }

  spansOf(index: number): StyledSpan[] {
    const line = (this.#begun.get(index) ?? '') + (this.#lines[index] ?? '');
    if (!line.includes('\x1b[')) return [{ text: printable(line), look: '', color: null, background: null }];
    return readSpans(line);
  }

  #addToLast(text: string): void {
    const { overwritten, last } = readStates(text);
    if (overwritten !== '') this.#forgetLast(overwritten);
    let rest = (this.#lines.pop() ?? '') + last;
    while (rest.length > LONGEST_LINE) {
      const end = findCut(rest);
      this.#lines.push(rest.slice(0, end));
      rest = rest.slice(end);
      this.#startLine();
      this.#lines.pop();
      this.#continued.push(this.#lines.length);
    }
    this.#lines.push(rest);
  }

  /** Drops the line that is written over, but keeps its colours. */
  #forgetLast(overwritten: string): void {
    let start = this.#lines.length - 1;
    while (this.#continued.at(-1) === start) {
      this.#continued.pop();
      start -= 1;
    }
    const all = [this.#begun.get(start), ...this.#lines.slice(start), overwritten].join('');
    for (let index = start; index < this.#lines.length; index += 1) this.#begun.delete(index);
    this.#lines.length = start;
    this.#lines.push('');
    const begun = lastColors(all);
    if (begun !== '') this.#begun.set(start, begun);
  }

  #noteGap(): void {
    const index = this.#lines.length - 1;
    const bytes = bytesLeftOut(this.#lines[index] ?? '');
    if (bytes !== null) this.#gaps.push({ index, bytes });
  }

  #startLine(): void {
    const last = this.#lines.length - 1;
    const begun = lastColors((this.#begun.get(last) ?? '') + this.#lines[last]);
    this.#lines.push('');
    if (begun !== '') this.#begun.set(last + 1, begun);
  }
}

/** Finds the place to cut a long line: neither within a sequence nor within a character. */
function findCut(line: string): number {
  const sequence = line.lastIndexOf('\x1b', LONGEST_LINE);
  if (sequence > LONGEST_LINE - 32) return sequence;
  const isWithin = /[\udc00-\udfff]/.test(line.charAt(LONGEST_LINE));
  return isWithin ? LONGEST_LINE - 1 : LONGEST_LINE;
}

/** The colours in force at the end of a line: all since the last reset. More than 16 come only by malice. */
function lastColors(line: string): string {
  if (!line.includes('\x1b[')) return '';
  const all = line.match(colors) ?? [];
  const reset = all.findLastIndex((each) => each === '\x1b[0m' || each === '\x1b[m');
  return all
    .slice(reset + 1)
    .slice(-16)
    .join('');
}

function readSpans(line: string): StyledSpan[] {
  // Only what `colors` finds reaches the library; sequences of any other kind are gone by then.
  const kept = line.match(colors) ?? [];
  const safe = line.split(colors).map((text, index) => printable(text) + (kept[index] ?? ''));
  return Anser.ansiToJson(safe.join(''), { json: true, remove_empty: true, use_classes: true }).map((entry) => ({
    text: entry.content,
    look: looksOf(entry).join(' '),
    color: ownColor(entry.fg) ?? mixedColor(entry.fg, entry.fg_truecolor),
    background: mixedColor(entry.bg, entry.bg_truecolor) ?? ownColor(entry.bg),
  }));
}

/** Hidden text is shown: nothing of an output is to be missed. */
const known: ReadonlySet<string> = new Set(['bold', 'dim', 'italic', 'underline', 'reverse', 'strikethrough']);

type Entry = ReturnType<typeof Anser.ansiToJson>[number];

function looksOf({ fg, bg, decorations }: Entry): string[] {
  const looks = decorations.filter((each) => known.has(each)).map((each) => `ansi-${each}`);
  if (fg) looks.push(ownColor(fg) === null ? 'ansi-mixed' : fg);
  if (bg) looks.push(`${bg}-bg`);
  return [...new Set(looks)];
}

/** Which colours of the page can be read in light and dark, and look as a script means it. */
const named: Readonly<Record<string, string>> = {
  black: 'var(--quiet)',
  red: 'var(--bad)',
  green: 'var(--good)',
  yellow: 'var(--warning)',
  blue: 'var(--link)',
  magenta: 'var(--paused)',
  cyan: 'light-dark(#0f6570, #56d4dd)',
  white: 'var(--text)',
};

function ownColor(name: string | null): string | null {
  return named[/^ansi-(?:bright-)?(\w+)$/.exec(name ?? '')?.[1] ?? ''] ?? null;
}

const levels = [0, 95, 135, 175, 215, 255];

function mixedColor(name: string | null, rgb: string | null): string | null {
  if (name === 'ansi-truecolor') return rgb === null ? null : `rgb(${rgb})`;
  const [, number] = /^ansi-palette-(\d+)$/.exec(name ?? '') ?? [];
  if (number === undefined) return null;
  const index = Number(number) - 16;
  if (index >= 216) return `rgb(${Array(3).fill(8 + (index - 216) * 10)})`;
  return `rgb(${[Math.floor(index / 36), Math.floor(index / 6) % 6, index % 6].map((each) => levels[each])})`;
}
