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

/**
 * @param text as the shell gets it
 * @param knowsRandom whether `$RANDOM` is a number in the shell of the line
 */
export function readWaits(text: string, { preparations }: ShellCommand, knowsRandom: boolean): Waits {
  const randomWait = (part: string) => longestRandom(part, knowsRandom || CALLS_BASH.test(text));
  const fixed = [...text.matchAll(FIXED)].map(([, count, unit]) => Number(count) * (UNIT_SECONDS[unit || 's'] ?? 1));
  return {
    fixed: fixed.reduce((sum, seconds) => sum + seconds, 0),
    random: randomWait(text),
    randomStart: Math.max(0, ...preparations.map(randomWait)),
  };
}

/** `$RANDOM` in a word of it is a number, whatever shell reads the line. */
export const CALLS_BASH = /\b(?:ba|z|k)sh\s+-\w*c\b/;

function longestRandom(text: string, knowsRandom: boolean): number {
  const forms = RANDOM.filter(([pattern]) => knowsRandom || !pattern.source.includes('RANDOM'));
  return Math.max(0, ...forms.flatMap(([pattern, seconds]) => [...text.matchAll(pattern)].map(seconds)));
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
