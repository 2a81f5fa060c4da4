/** Writes into a run's output, and counts what it does. */
export interface Log {
  /** Writes a line to the run's output, as `console.log` does. */
  (...values: unknown[]): void;
  /**
   * Reports how much this run has done. Counts of one name add up. The sum is recorded with the run and compared with
   * the script's earlier runs, so that a run that imports 3 orders instead of 300 is noticed.
   *
   * @param name what is counted: letters, digits and `_ . : / -`, at most 64; at most 20 names in a run
   * @param by how many; any finite number. Default: 1
   * @throws {TypeError} if the name or the number is invalid, or if there are too many names
   * @example
   * log.count('orders', orders.length);
   */
  count(name: string, by?: number): void;
}

/** Sums by name. */
export type Counts = Readonly<Record<string, number>>;

/** Most names that a run may count, so that no run fills the log. */
export const MOST_COUNTS = 20;

const countName = /^\w[\w.:/-]{0,63}$/;

/**
 * Adds to one of the counts.
 *
 * @returns null if it was added; otherwise what was expected
 */
export function addCount(counts: Map<string, number>, name: unknown, by: unknown): string | null {
  if (typeof name !== 'string' || !countName.test(name)) {
    return 'a name of at most 64 letters, digits and _ . : / -';
  }
  const sum = typeof by === 'number' ? (counts.get(name) ?? 0) + by : Number.NaN;
  if (!Number.isFinite(sum)) return 'a finite number';
  if (counts.size >= MOST_COUNTS && !counts.has(name)) return `at most ${MOST_COUNTS} names`;
  counts.set(name, sum);
  return null;
}

/** The counts of the present run of this process. */
let current = new Map<string, number>();

/** @param isOpen whether the run goes on; a line written after its end would appear in another run's output */
export function openLog(isOpen: () => boolean = () => true): Log {
  const counts = new Map<string, number>();
  current = counts;
  const write = (...values: unknown[]): void => {
    if (isOpen()) console.log(...values);
  };
  const count = (name: string, by: number = 1): void => {
    const expected = addCount(counts, name, by);
    if (expected !== null) throw new TypeError(`log.count() needs ${expected}`);
  };
  return Object.assign(write, { count });
}

/** Returns the counts of the run that ends now, and resets them. */
export function takeCounts(): { readonly counts?: Counts } {
  const counts = current;
  current = new Map();
  return counts.size === 0 ? {} : { counts: Object.fromEntries(counts) };
}
