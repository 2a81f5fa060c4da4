import { median, medianAbsoluteDeviation } from 'simple-statistics';
import type { Deviation, MeasuredRun } from '../../store/contract.ts';
import type { Measure } from '../../store/schema.ts';

/** With fewer earlier runs nobody knows what is usual. */
export const FEWEST_RUNS = 5;

/** So many earlier runs are looked at: more tell what was usual a while ago. */
export const RECENT_RUNS = 30;

/** What makes a figure unusual, in the same way for all scripts: nothing is to be set. */
interface Rule {
  /** Equal factors become equal distances. */
  readonly scale: (value: number) => number;
  /** A difference smaller than this is noise, whatever it was before. */
  readonly leastDifference: number;
  readonly isLessUnusual: boolean;
}

/** Of what can be 0, or less: as good as a logarithm for all that is not small. */
const signed =
  (unit: number) =>
  (value: number): number =>
    Math.asinh(value / unit);

const MB = 1024 * 1024;

const rules: Readonly<Record<Exclude<Measure, 'creep'>, Rule>> = {
  duration: { scale: (ms) => Math.log(Math.max(ms, 1)), leastDifference: 50, isLessUnusual: true },
  memory: { scale: (bytes) => Math.log(Math.max(bytes, MB)), leastDifference: 16 * MB, isLessUnusual: false },
  output: { scale: signed(64), leastDifference: 256, isLessUnusual: true },
  count: { scale: signed(1), leastDifference: 3, isLessUnusual: true },
};

/** Nobody is to hear of less than this factor. */
const LEAST_FACTOR = Math.log(2);

/** By so much it lies outside of all others: of what has two usual values, each varies, too. */
const LEAST_BEYOND = Math.log(1.25);

/** How many standard deviations count as unusual; the fewer runs there are, the less is known of those. */
const spreads = (runs: number): number => 3.4 + 16 / runs;

/** What of a normal distribution the median absolute deviation is. */
const MAD_OF_NORMAL = 0.6745;

/**
 * In what a successful run is unlike those before it: it lies further from their median than their spread explains,
 * and outside of all of them, so that what has two usual values, or another one at weekends, is none.
 *
 * @param recent the last successful runs before it, newest first
 * @param seasonal those of the same time a day and a week ago
 */
export function judgeRun(
  run: MeasuredRun,
  recent: readonly MeasuredRun[],
  seasonal: readonly MeasuredRun[] = [],
): Deviation[] {
  const figures = figuresOf(run);
  const before = recent.map(figuresOf);
  const then = seasonal.map(figuresOf);
  return [...figures].flatMap(([key, { measure, name, value }]) => {
    const values = before.flatMap((each) => each.get(key)?.value ?? []);
    const others = then.flatMap((each) => each.get(key)?.value ?? []);
    const usual = findUsual(measure, value, values, others);
    return usual === null ? [] : [{ measure, name, value, usual, runs: values.length, since: null }];
  });
}

/** @returns what it usually is, where this value is unlike that; null: it is as usual */
export function findUsual(
  measure: Exclude<Measure, 'creep'>,
  value: number,
  recent: readonly number[],
  seasonal: readonly number[] = [],
): number | null {
  if (recent.length < FEWEST_RUNS) return null;
  const { scale, leastDifference, isLessUnusual } = rules[measure];
  const usual = median([...recent]);
  if (Math.abs(value - usual) < leastDifference || (value < usual && !isLessUnusual)) return null;
  const scaled = recent.map(scale);
  const distance = Math.abs(scale(value) - median(scaled));
  const spread = medianAbsoluteDeviation(scaled) / MAD_OF_NORMAL;
  if (distance < LEAST_FACTOR || distance < spread * spreads(recent.length)) return null;
  const others = [...scaled, ...seasonal.map(scale)];
  const outsideBy = value > usual ? scale(value) - Math.max(...others) : Math.min(...others) - scale(value);
  return outsideBy < LEAST_BEYOND ? null : usual;
}

interface Figure {
  readonly measure: Exclude<Measure, 'creep'>;
  readonly name: string;
  readonly value: number;
}

function figuresOf(run: MeasuredRun): Map<string, Figure> {
  const figures = new Map<string, Figure>();
  const add = (measure: Figure['measure'], name: string, value: number | null): void => {
    if (value !== null) figures.set(`${measure} ${name}`, { measure, name, value });
  };
  add('duration', '', run.durationMs);
  add('memory', '', run.maxRssBytes);
  add('output', '', run.outputBytes);
  for (const [name, value] of Object.entries(JSON.parse(run.counts) as Record<string, number>)) {
    add('count', name, value);
  }
  return figures;
}
