import type { ShellCommand } from './command.ts';

/** How long a command waits, in seconds, as far as it says so. */
export interface Waits {
  /** Each time: all of `sleep 20` and the like. */
  readonly fixed: number;
  /** At most, where chance decides. */
  readonly random: number;
  /** The same, before it does anything else. */
  readonly randomStart: number;
}

/** @param text as the shell gets it */
export function readWaits(text: string, { preparations }: ShellCommand): Waits {
  const fixed = [...text.matchAll(FIXED)].map(([, count, unit]) => Number(count) * (UNIT_SECONDS[unit || 's'] ?? 1));
  return {
    fixed: fixed.reduce((sum, seconds) => sum + seconds, 0),
    random: randomWait(text),
    randomStart: Math.max(0, ...preparations.map(randomWait)),
  };
}

function randomWait(text: string): number {
  return Math.max(0, ...RANDOM.flatMap(([pattern, seconds]) => [...text.matchAll(pattern)].map(seconds)));
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
const FIXED = /\bsleep\s+(\d+(?:\.\d+)?)([smhd]?)\b/g;

/** `$RANDOM` is at most this. */
const LARGEST_RANDOM = 32_767;

const RANDOM: readonly (readonly [RegExp, (match: RegExpMatchArray) => number])[] = [
  [/\bsleep\b[^;&|]*RANDOM[^;&|%]*%\s*(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\s+"?\$\{?RANDOM\}?"?(?=\s|;|&|$)/g, () => LARGEST_RANDOM],
  [/\bsleep\b[^;&|]*\bshuf\s+-i\s*\d+-(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\b[^;&|]*\brand\(\s*(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\b[^;&|]*\brandom\(\)\s*\*\s*(\d+)/g, ([, most]) => Number(most)],
  [/\bsleep\b[^;&|]*\brand(?:int|range)\([^)]*?(\d+)\s*\)/g, ([, most]) => Number(most)],
];
