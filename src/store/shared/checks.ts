import type { FailureStreak, GlanceFrom, TierGlance } from '../contract/metrics.ts';
import { OF_RUNS } from '../words.ts';

/** A row, if there is anything that a check might find: each a few steps into an index, as all passes ask for it. */
export function suspicionOf(from: GlanceFrom) {
  const { at, runningSince, failedSince, fewestFailed, crashedSince, fewestCrashes, undeliveredSince } = from;
  return {
    text: `select 1 as one where exists (select 1 from incidents where recovered_at is null and code not in (${OF_RUNS}))
       or exists (select 1 from runs where outcome = 'running' and started_at <= ?)
       or exists (select 1 from jobs where ready = 1)
       or exists (select 1 from jobs where ready = 0 and run_at <= ?)
       or exists (select 1 from jobs where state = 'failed' and finished_at >= ?
         and finished_at is not null and tier is null limit 1 offset ?)
       or exists (select 1 from workers where state = 'crashed' and finished_at >= ? limit 1 offset ?)
       or exists (select 1 from deliveries where attempts > 0 and created_at <= ?)`,
    values: [runningSince, at, failedSince, fewestFailed - 1, crashedSince, fewestCrashes - 1, undeliveredSince],
  };
}

/** A tier, as statements find it. */
export interface TierGlanceRow extends Omit<TierGlance, 'isDue' | 'isHeld'> {
  readonly isDue: number | null;
  readonly isHeld: number | null;
}

export function toTierGlance({ isDue, isHeld, ...row }: TierGlanceRow): TierGlance {
  return { ...row, isDue: isDue === 1, isHeld: isHeld === null ? null : isHeld === 1 };
}

/** What of a script has not succeeded since it last did, the latest first. */
export const streakOf = (script: string, limit: number) => ({
  text: `select left_job as "leftJob", started_at as since, reason from runs
     where script_id = (select id from scripts where name = ?) and outcome <> 'running'
       and started_at >= coalesce((select started_at from runs
         where script_id = (select id from scripts where name = ?) and outcome = 'succeeded'
         order by started_at desc limit 1), 0)
       and outcome <> 'succeeded'
     order by started_at desc, id desc limit ?`,
  values: [script, script, limit],
});

export interface StreakRow {
  readonly leftJob: string | null;
  readonly since: number;
  readonly reason: string | null;
}

export function toStreak(rows: readonly StreakRow[]): FailureStreak {
  const failed = rows.filter(({ leftJob }) => leftJob === 'failed');
  return { count: failed.length, since: rows.at(-1)?.since ?? null, reason: failed[0]?.reason ?? null };
}
