import type { Tier } from '../../discovery/script.ts';
import { listOf, timeOf } from './amounts.ts';
import { readCronGapMs } from './cron-time.ts';
import type { CrontabLine } from './crontab-line.ts';

/** Of the 30 days that a month is taken for, and the 365 of a year. */
const LONGEST_MONTH = 31 / 30;

/** How a line comes less or more often than the names of its tiers say; null: it doesn't, or nobody knows. */
export function judgeFrequency(
  line: Pick<CrontabLine, 'time' | 'call' | 'isSifted'>,
  tiers: readonly Tier[],
): string | null {
  const reading = readCronGapMs(line.time);
  const gapMs = 'value' in reading ? reading.value : null;
  if (gapMs === null) return null;
  const called = tiers.filter(({ name, scripts }) =>
    line.call === 'due' ? scripts.length > 0 : name === line.call,
  );
  const rarer = called.filter(({ periodMs }) => gapMs > (periodMs ?? gapMs) * LONGEST_MONTH);
  if (rarer.length > 0) return `${describeRare(gapMs)}, less often than ${sayOf(rarer)}`;
  // What is not due is not run, and a test before the command may be a sieve.
  const isMeant = line.call === 'due' || line.isSifted;
  const oftener = called.filter(({ periodMs }) => gapMs < (periodMs ?? gapMs));
  if (isMeant || oftener.length === 0) return null;
  return `comes at least every ${timeOf(gapMs)}, more often than ${sayOf(oftener)}`;
}

function describeRare(gapMs: number): string {
  return Number.isFinite(gapMs)
    ? `comes up to ${timeOf(gapMs)} apart`
    : 'comes only when the machine starts';
}

function sayOf(tiers: readonly Tier[]): string {
  const names = tiers.map(({ name }) => name);
  return `${listOf(names)} ${names.length === 1 ? 'says' : 'say'}`;
}
