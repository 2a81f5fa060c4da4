import { tierPeriodMs } from './tier-period.ts';

const ONE_HOUR_MS = 3_600_000;

/** The tier's period, at most one hour: a pass is to be over before the next one is due. */
export function defaultTimeoutMs(tier: string): number {
  return Math.min(tierPeriodMs(tier) ?? ONE_HOUR_MS, ONE_HOUR_MS);
}
