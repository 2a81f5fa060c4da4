/** The times that a rule gives one after the other, up to one that has not passed. */
export interface TimeSeries {
  /** How many of its times have passed. */
  readonly passed: number;
  /** From 0, which is the first; `passed` is the first in the future. Null: there is none. */
  timeAt(index: number): number | null;
}
