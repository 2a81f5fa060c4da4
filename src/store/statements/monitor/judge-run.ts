import { mean, median } from 'simple-statistics';
import type { Measure } from '../../words.ts';
import type { Deviation, MeasuredRun } from './usual.ts';

/** With fewer earlier runs nobody knows what is usual. */
export const FEWEST_RUNS = 5;

/** So many earlier runs are looked at: more tell what was usual a while ago. */
export const RECENT_RUNS = 30;

type Judged = Exclude<Measure, 'creep'>;

/** What makes a figure unusual, in the same way for all scripts: nothing is to be set. */
interface Rule {
  /** Equal factors become equal distances. */
  readonly scale: (value: number) => number;
  readonly unscale: (scaled: number) => number;
  /** A difference smaller than this is noise, whatever it was before. */
  readonly leastDifference: number;
  readonly isLessUnusual: boolean;
}

const logarithm = (least: number) => ({
  scale: (value: number): number => Math.log(Math.max(value, least)),
  unscale: Math.exp,
});

/** Of what can be 0, or less: as good as a logarithm for all that is not small. */
const signed = (unit: number) => ({
  scale: (value: number): number => Math.asinh(value / unit),
  unscale: (scaled: number): number => Math.sinh(scaled) * unit,
});

const MB = 1024 * 1024;

const rules: Readonly<Record<Judged, Rule>> = {
  duration: { ...logarithm(1), leastDifference: 50, isLessUnusual: true },
  memory: { ...logarithm(MB), leastDifference: 16 * MB, isLessUnusual: false },
  output: { ...signed(64), leastDifference: 256, isLessUnusual: true },
  count: { ...signed(1), leastDifference: 3, isLessUnusual: true },
};

/** Nobody is to hear of less than this factor, and runs that differ by less are of one kind. */
const LEAST_FACTOR = Math.log(2);

/** By so much it is unlike each of the others, whatever their median is. */
const LEAST_BEYOND = Math.log(1.25);

/** Of so many runs one may be odd: it is no kind of its own. */
const RUNS_PER_ODD_ONE = 15;

/** What is known by the week is taken where the last runs then vary by less than this share. */
const BETTER_BY_WEEK = 0.7;

/** How many standard deviations count as unusual; the fewer runs there are, the less is known of those. */
const spreads = (runs: number): number => 3.4 + 16 / runs;

/** What of a normal distribution the median absolute deviation is. */
const MAD_OF_NORMAL = 0.6745;

/** What a run is compared with. */
export interface Earlier {
  /** The last successful runs before it, newest first. */
  readonly recent: readonly MeasuredRun[];
  /** Those that ran beside it, or beside one of the recent ones, at the same time of earlier weeks. */
  readonly weeksBefore: (run: MeasuredRun) => readonly MeasuredRun[];
}

/**
 * In what a successful run is unlike those before it.
 *
 * @param alike what is like one of these is as usual, too, as long as nothing is known by the week
 */
export function judgeRun(
  run: MeasuredRun,
  { recent, weeksBefore }: Earlier,
  alike: readonly MeasuredRun[] = [],
): Deviation[] {
  const now = weeksBefore(run).map(figuresOf);
  const before = recent.map((each) => ({ figures: figuresOf(each), weeks: weeksBefore(each).map(figuresOf) }));
  const others = alike.map(figuresOf);
  return [...figuresOf(run)].flatMap(([key, { measure, name, value }]) => {
    const valuesOf = (all: readonly Map<string, Figure>[]) => all.flatMap((each) => each.get(key)?.value ?? []);
    const pairs = before.flatMap(({ figures, weeks }) =>
      valuesOf([figures]).map((each) => ({ value: each, weeks: valuesOf(weeks) })),
    );
    const moved = moveToNow(measure, pairs, valuesOf(now));
    const usual = findUsual(measure, value, moved ?? pairs.map((pair) => pair.value));
    if (usual === null || (moved === null && isLikeAny(measure, value, valuesOf(others)))) return [];
    return [{ measure, name, value, usual, runs: pairs.length, since: null }];
  });
}

/**
 * What the last runs would have been at this time of the week: each by what has become of it, between its time and
 * this one, in the weeks before.
 *
 * @returns null: that explains them no better
 */
function moveToNow(
  measure: Judged,
  recent: readonly { readonly value: number; readonly weeks: readonly number[] }[],
  now: readonly number[],
): number[] | null {
  const { scale, unscale } = rules[measure];
  const known = recent.filter(({ weeks }) => weeks.length > 0);
  if (now.length === 0 || known.length < FEWEST_RUNS) return null;
  const target = median(now.map(scale));
  const moved = known.map(({ value, weeks }) => scale(value) - median(weeks.map(scale)) + target);
  const explains = variation(moved) < variation(known.map(({ value }) => scale(value))) * BETTER_BY_WEEK;
  return explains ? moved.map(unscale) : null;
}

/** On average, so that a few runs of another kind count, too. */
function variation(scaled: readonly number[]): number {
  const middle = median([...scaled]);
  return mean(scaled.map((value) => Math.abs(value - middle)));
}

/**
 * It is unusual if it is far from the median of each kind of run: further than their spread explains.
 *
 * @returns what it usually is, where this value is unlike that; null: it is as usual
 */
export function findUsual(measure: Judged, value: number, recent: readonly number[]): number | null {
  if (recent.length < FEWEST_RUNS) return null;
  const { scale, leastDifference, isLessUnusual } = rules[measure];
  const kinds = kindsOf(measure, recent).map((values) => ({ values, usual: median(values) }));
  const distance = (one: number, other: number): number => Math.abs(scale(one) - scale(other));
  const distances = kinds.flatMap(({ values, usual }) => values.map((each) => distance(each, usual)));
  if (distances.length === 0) return null;
  const far = Math.max(LEAST_FACTOR, (median(distances) / MAD_OF_NORMAL) * spreads(recent.length));
  const isUnlike = kinds.every(
    ({ values, usual }) =>
      distance(value, usual) >= far &&
      Math.abs(value - usual) >= leastDifference &&
      (value > usual || isLessUnusual) &&
      !isLikeAny(measure, value, values),
  );
  if (!isUnlike) return null;
  return kinds.reduce((one, other) => (distance(value, other.usual) < distance(value, one.usual) ? other : one)).usual;
}

/** Runs that have more to do at times are of several kinds, with a gap between them; odd ones are left out. */
function kindsOf(measure: Judged, values: readonly number[]): number[][] {
  const { scale, leastDifference } = rules[measure];
  const kinds: number[][] = [];
  for (const value of values.toSorted((one, other) => one - other)) {
    const kind = kinds.at(-1);
    const last = kind?.at(-1);
    const isGap = last === undefined || (scale(value) - scale(last) >= LEAST_FACTOR && value - last >= leastDifference);
    if (isGap) kinds.push([value]);
    else kind?.push(value);
  }
  return kinds.filter(({ length }) => length * RUNS_PER_ODD_ONE >= values.length);
}

function isLikeAny(measure: Judged, value: number, others: readonly number[]): boolean {
  const { scale } = rules[measure];
  return others.some((other) => Math.abs(scale(value) - scale(other)) < LEAST_BEYOND);
}

interface Figure {
  readonly measure: Judged;
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
  for (const [name, value] of Object.entries(run.counts)) add('count', name, value);
  return figures;
}
