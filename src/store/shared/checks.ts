import type { GlanceFrom, TierGlance } from '../contract/metrics.ts';
import { OF_RUNS } from '../words.ts';

/** A row, if there is anything that a check might find: each a few steps into an index, as all passes ask for it. */
export function suspicionOf(from: GlanceFrom) {
  const { at, runningSince, failedSince, fewestFailed, crashedSince, fewestCrashes, undeliveredSince } = from;
  return {
    text: `select 1 as one where exists (select 1 from incidents where recovered_at is null and code not in (${OF_RUNS}))
       or exists (select 1 from runs where outcome = 'running' and started_at <= ?)
       or exists (select 1 from jobs where ready = 1)
       or exists (select 1 from jobs where ready = 2)
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
