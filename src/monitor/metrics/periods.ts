import { DAY_MS, HOUR_MS } from '../../system/base/values.ts';

/** Lengths that hours are summed up to. All begin and end in UTC; weeks begin on Monday. */
export const periods = ['1h', '6h', '12h', '1d', '1w'] as const;
export type Period = (typeof periods)[number];

const lengths: Readonly<Record<Period, number>> = {
  '1h': HOUR_MS,
  '6h': 6 * HOUR_MS,
  '12h': 12 * HOUR_MS,
  '1d': DAY_MS,
  '1w': 7 * DAY_MS,
};

/** UTC epoch milliseconds of the whole hour that it lies in. */
export const hourOf = (at: number): number => Math.floor(at / HOUR_MS) * HOUR_MS;

/** The first Monday since 1970, which began on a Thursday. */
const MONDAY_MS = 4 * DAY_MS;

/** When the period that it lies in begins, and when the next one does; UTC epoch milliseconds. */
export function periodAround(at: number, period: Period): { readonly from: number; readonly until: number } {
  const length = lengths[period];
  const from = Math.floor((at - MONDAY_MS) / length) * length + MONDAY_MS;
  return { from, until: from + length };
}
