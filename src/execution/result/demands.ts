import { readSync } from 'node:fs';
import { KNOWN_SIGNS, readRegularExpression } from '../../settings/readers.ts';
import type { ScriptOptions } from '../../settings/settings.ts';
import { isOfSystem } from '../../system/base/errors.ts';
import { plainText, printableLine } from '../../system/base/text.ts';
import { sizeOfOpen } from '../run-files.ts';
import type { Masker } from '../secrets.ts';

/** A pattern that a script demands or forbids in its output, by `@expect` or `@fail-on`. */
interface Demand {
  /** The pattern as written in the tag. */
  readonly pattern: string;
  readonly fits: (line: string) => boolean;
  /** Why the pattern cannot be searched for; null: it can. */
  readonly problem: string | null;
  /** The first line that fits; null: none so far. */
  line: string | null;
}

/** @returns null if nothing is demanded; then the output is not read */
export async function createScan({ failOn = [], expect = [] }: ScriptOptions): Promise<OutputScan | null> {
  const refused = failOn.filter((pattern) => pattern !== KNOWN_SIGNS);
  if (refused.length + expect.length === 0) return null;
  return new OutputScan(await Promise.all(refused.map(toDemand)), await Promise.all(expect.map(toDemand)));
}

/**
 * Compiles a regular expression by RE2's rules: its time is proportional to the line, whatever pattern and line
 * contain.
 */
async function toDemand(pattern: string): Promise<Demand> {
  const expression = readRegularExpression(pattern);
  if (expression === null) return { pattern, fits: (line) => line.includes(pattern), problem: null, line: null };
  try {
    const { RE2JS } = await import('re2js');
    const flags = expression.ignoresCase ? RE2JS.CASE_INSENSITIVE : 0;
    const compiled = RE2JS.compile(RE2JS.translateRegExp(expression.source), flags);
    return { pattern, fits: (line) => compiled.matcher(line).find(), problem: null, line: null };
  } catch (error) {
    return { pattern, fits: () => false, problem: (error as Error).message, line: null };
  }
}

const PIECE_BYTES = 256 * 1024;

/** Longest line, in characters; a longer one is searched in parts. */
const LONGEST_LINE = 64 * 1024;

/**
 * Other line beginnings, as a reader sees them, are found within these lines; no terminal sequence goes over their end.
 */
const lineEnds = /[\r\n\0]/;

/** Searches an output line by line in the order in which it was written, including the parts that are not kept. */
export class OutputScan {
  readonly #refused: readonly Demand[];
  readonly #expected: readonly Demand[];
  readonly #decoder = new TextDecoder();
  #begun = '';
  /** The number of bytes of the file that have been read. */
  #position = 0;

  constructor(refused: readonly Demand[], expected: readonly Demand[]) {
    this.#refused = refused;
    this.#expected = expected;
  }

  /** Call it before the file is cut: the text after `end` then moves to `next`. */
  readBeforeCut(fd: number, end: number, next: number): void {
    while (this.#readPiece(fd, end));
    this.#position = next;
  }

  /** Searches the rest. Returns one sentence that says why the run has failed by it, or null. */
  async finish(fd: number, masker: Masker, size: number | null = sizeOfOpen(fd)): Promise<string | null> {
    if (size === null) return UNREADABLE;
    try {
      // Let other runs go on meanwhile.
      while (this.#readPiece(fd, size)) await new Promise((resolve) => setImmediate(resolve));
    } catch (error) {
      if (!isOfSystem(error)) throw error;
      return UNREADABLE;
    }
    this.#look([this.#begun]);
    const unusable = [...this.#refused, ...this.#expected].find(({ problem }) => problem !== null);
    if (unusable !== undefined) return `its output cannot be judged by ${unusable.pattern}: ${unusable.problem}`;
    const hit = this.#refused.find(({ line }) => line !== null);
    if (hit !== undefined) return describeHit(hit, masker);
    const missed = this.#expected.filter(({ line }) => line === null);
    return missed.length === 0 ? null : describeMissed(missed);
  }

  #readPiece(fd: number, end: number): boolean {
    const piece = Buffer.allocUnsafe(Math.max(0, Math.min(PIECE_BYTES, end - this.#position)));
    const length = piece.length === 0 ? 0 : readSync(fd, piece, 0, piece.length, this.#position);
    if (length === 0) return false;
    this.#position += length;
    const text = this.#begun + this.#decoder.decode(piece.subarray(0, length), { stream: true });
    const lines = text.split(lineEnds);
    const last = lines.pop() ?? '';
    this.#begun = last.length > LONGEST_LINE ? '' : last;
    this.#look(this.#begun === last ? lines : [...lines, last]);
    return true;
  }

  #look(written: readonly string[]): void {
    const lines = plainText(written.join('\n')).split(/[\r\n]/);
    for (const demand of [...this.#refused, ...this.#expected]) {
      demand.line ??= lines.find((line) => demand.fits(line)) ?? null;
    }
  }
}

const UNREADABLE = 'exit code 0, but its output cannot be read any more, so nobody knows whether it is as demanded';

const LONGEST_QUOTED = 200;

function describeHit({ pattern, line }: Demand, masker: Masker): string {
  const said = printableLine(masker.text((line ?? '').slice(0, LONGEST_QUOTED)).trim());
  return `exit code 0, but its output matches @fail-on ${pattern}: ${said}`;
}

function describeMissed(missed: readonly Demand[]): string {
  const patterns = missed.map(({ pattern }) => `@expect ${pattern}`).join(', ');
  return `exit code 0, but no line of its output matches ${patterns}`;
}
