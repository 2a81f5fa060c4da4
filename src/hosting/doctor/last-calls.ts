import type { Tier } from '../../discovery/script.ts';
import { readCronGapMs } from './cron-time.ts';
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

/** Hosts shift cron's minutes, and a long pass keeps the next one away. */
const TOLERATED_PERIODS = 2;

export async function findLastCalls(
  { discovery, log, crontab, nowMs }: DoctorPlace,
  of?: readonly Tier[],
): Promise<LastCall[]> {
  const { facts } = await log();
  const tiers = of ?? (await discovery()).tiers.filter(({ scripts }) => scripts.length > 0);
  const { lines } = crontab();
  return tiers.flatMap(({ name, periodMs }) => {
    if (periodMs === null) return [];
    const everyMs = Math.max(periodMs, findGapMs(lines, name));
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

/** How long it can take until the next line comes that calls this tier; 0: nobody knows. */
function findGapMs(lines: readonly CrontabLine[], tier: string): number {
  const gaps = lines
    .filter(({ call }) => call === tier || call === 'due')
    .map(({ time }) => readCronGapMs(time))
    .map((reading) => ('value' in reading ? (reading.value ?? 0) : 0));
  return gaps.length === 0 ? 0 : Math.min(...gaps);
}
