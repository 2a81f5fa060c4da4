import type { Tier } from '../../discovery/script.ts';
import type { CrontabLine } from './crontab-line.ts';
import type { DoctorPlace } from './place.ts';

/** How a tier is doing that something should call again and again. */
export interface LastCall {
  readonly tier: string;
  /** How often it can be expected to be called. */
  readonly everyMs: number;
  /** Null: never by schedule. */
  readonly calledAt: number | null;
  readonly isOverdue: boolean;
}

const HOUR_MS = 3_600_000;

/** Hosts shift cron's minutes, and a long pass keeps the next one away. */
const TOLERATED_PERIODS = 2;

export async function findLastCalls(
  { discovery, log, crontab, nowMs }: DoctorPlace,
  of?: readonly Tier[],
): Promise<LastCall[]> {
  const { facts } = await log();
  const tiers = of ?? (await discovery()).tiers.filter(({ scripts }) => scripts.length > 0);
  const slowest = intervalOfDue(crontab().lines);
  return tiers.flatMap(({ name, periodMs }) => {
    if (periodMs === null) return [];
    const everyMs = Math.max(periodMs, slowest);
    const calledAt = facts?.lastCalledAt.get(name) ?? null;
    const isOverdue = calledAt !== null && nowMs - calledAt > TOLERATED_PERIODS * everyMs;
    return [{ tier: name, everyMs, calledAt, isOverdue }];
  });
}

/** Whether something calls these tiers, in whatever way. */
export async function wasCalledLately(
  place: DoctorPlace,
  tiers?: readonly Tier[],
): Promise<boolean> {
  const calls = await findLastCalls(place, tiers);
  return (
    calls.length > 0 && calls.every(({ calledAt, isOverdue }) => calledAt !== null && !isOverdue)
  );
}

/** `runner due` can call a tier no more often than it is called itself: each hour or so, or each day. */
function intervalOfDue(lines: readonly CrontabLine[]): number {
  const due = lines.filter(({ call }) => call === 'due').map(({ time }) => time);
  if (due.length === 0) return 0;
  const isHourly = (time: string): boolean => time === '@hourly' || time.split(/\s+/)[1] === '*';
  return due.some(isHourly) ? HOUR_MS : 24 * HOUR_MS;
}
