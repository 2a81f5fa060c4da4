import { mean, median } from 'simple-statistics';
import { DAY_MS } from '../../../system/base/values.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import type { Measure } from '../../words.ts';
import { type Deviation, type MeasuredRun, usualOf } from './usual.ts';

const WEEK_MS = 7 * DAY_MS;

/** Their median counts, so that one odd run is not expected again a week later. */
const WEEKS = 3;

/** Number of runs looked at around the same time of an earlier day. */
const RUNS_AROUND = 8;

type EarlierRuns = Pick<ReturnType<typeof usualOf>, 'successes'>;

/**
 * Compares runs that have succeeded with those before them.
 *
 * @returns what was unusual, by the number of the run
 */
export async function compareRuns(
  db: Statements,
  runs: readonly MeasuredRun[],
): Promise<ReadonlyMap<number, readonly Deviation[]>> {
  const usual = usualOf(db);
  const compared = new Map<number, readonly Deviation[]>();
  for (const ofScript of Map.groupBy(runs, ({ script }) => script).values()) {
    const inOrder = ofScript.toSorted((one, other) => one.startedAt - other.startedAt || one.id - other.id);
    const [first] = inOrder as [MeasuredRun];
    let before = await usual.successes(first.script, first.startedAt, RECENT_RUNS);
    for (const run of inOrder) {
      compared.set(run.id, await compareRun(usual, run, before));
      before = [run, ...before].slice(0, RECENT_RUNS);
    }
  }
  return compared;
}

/** @param before the last successful runs before it, newest first */
export async function compareRun(
  usual: EarlierRuns,
  run: MeasuredRun,
  before: readonly MeasuredRun[],
): Promise<Deviation[]> {
  const creep = await findCreep(usual, run, before);
  if (before.length < FEWEST_RUNS) return creep;
  const earlier = { recent: before, weeksBefore: await readWeeksBefore(usual, run, before) };
  if (judgeRun(run, earlier).length === 0) return creep;
  return [...judgeRun(run, earlier, await readAround(usual, run, before)), ...creep];
}

/** Runs at the same time of earlier weeks: those beside this run, and those beside each one before it. */
async function readWeeksBefore(
  usual: EarlierRuns,
  { script, startedAt }: MeasuredRun,
  before: readonly MeasuredRun[],
): Promise<(run: MeasuredRun) => MeasuredRun[]> {
  const intervalMs = intervalOf(startedAt, before);
  const weeks: { ago: number; runs: readonly MeasuredRun[] }[] = [];
  for (let ago = WEEK_MS; ago <= WEEKS * WEEK_MS; ago += WEEK_MS) {
    const runs = await usual.successes(script, startedAt - ago + intervalMs / 2, before.length + 1);
    if (runs.length === 0) break;
    weeks.push({ ago, runs });
  }
  return (run) =>
    weeks.flatMap(({ ago, runs }) => {
      const off = (other: MeasuredRun): number => Math.abs(run.startedAt - ago - other.startedAt);
      const nearest = runs.reduce((one, other) => (off(other) < off(one) ? other : one));
      return off(nearest) < intervalMs ? [nearest] : [];
    });
}

/** Only asked for what is unlike the last runs: another load at night, or at the first known weekend, is as usual. */
async function readAround(
  usual: EarlierRuns,
  { script, startedAt }: MeasuredRun,
  before: readonly MeasuredRun[],
): Promise<MeasuredRun[]> {
  const oldest = before.at(-1)?.startedAt ?? startedAt;
  const around: MeasuredRun[] = [];
  for (const ago of [DAY_MS, WEEK_MS]) {
    const until = startedAt - ago + (intervalOf(startedAt, before) * RUNS_AROUND) / 2;
    // Runs that are among the last ones are known already.
    if (until <= oldest) around.push(...(await usual.successes(script, until, RUNS_AROUND)));
  }
  return around;
}

/** From one run to the next, on average. */
function intervalOf(startedAt: number, before: readonly MeasuredRun[]): number {
  return (startedAt - (before.at(-1)?.startedAt ?? startedAt)) / Math.max(1, before.length);
}

/** Number of instants, a week apart, and the number of runs whose memory is looked at for each. */
const CREEP_WEEKS = 4;
const CREEP_RUNS = 9;
const FEWEST_CREEP_RUNS = 5;

/** From one week to the next, and in all. */
const LEAST_GROWTH = 1.03;
const LEAST_FACTOR = 1.3;
const LEAST_BYTES = 16 * 1024 * 1024;

/**
 * Whether a script's memory has grown from week to week, without any run that would be unlike the one before. Looked at
 * with its first run of each day (UTC).
 *
 * @param before the last successful runs before it, newest first
 */
async function findCreep(
  usual: EarlierRuns,
  { script, startedAt, maxRssBytes }: MeasuredRun,
  before: readonly MeasuredRun[],
): Promise<Deviation[]> {
  const last = before[0]?.startedAt;
  const isFirstOfDay = last !== undefined && Math.floor(last / DAY_MS) < Math.floor(startedAt / DAY_MS);
  if (maxRssBytes === null || !isFirstOfDay) return [];
  let since = startedAt;
  let later = medianOf(before.slice(0, CREEP_RUNS));
  const now = later;
  for (let week = 1; week < CREEP_WEEKS; week += 1) {
    const runs = await usual.successes(script, startedAt - week * WEEK_MS, CREEP_RUNS);
    const earlier = medianOf(runs);
    if (earlier === null || later === null || later < earlier * LEAST_GROWTH) return [];
    // A script that did not run for weeks gives no figures for them.
    const newest = (runs[0] as MeasuredRun).startedAt;
    if (newest < startedAt - (week + 1) * WEEK_MS) return [];
    since = newest;
    later = earlier;
  }
  if (now === null || later === null || now < later * LEAST_FACTOR || now - later < LEAST_BYTES) return [];
  return [{ measure: 'creep', name: '', value: now, usual: later, runs: CREEP_RUNS * CREEP_WEEKS, since }];
}

/** Null: too few are known. */
function medianOf(runs: readonly MeasuredRun[]): number | null {
  const known = runs.flatMap(({ maxRssBytes }) => maxRssBytes ?? []);
  return known.length < FEWEST_CREEP_RUNS ? null : median(known);
}

/** With fewer earlier runs nobody knows what is usual. */
export const FEWEST_RUNS = 5;

/** Number of earlier runs that are compared; more would include what was usual long ago. */
export const RECENT_RUNS = 30;

type Judged = Exclude<Measure, 'creep'>;

/** The conditions for an unusual figure, the same for all scripts: there are no settings. */
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

/** Scale of figures that can be 0 or less: like a logarithm for all figures that are not small. */
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

/** Smaller factors are not reported, and runs that differ by less are of one kind. */
const LEAST_DISTANCE = Math.log(2);

/** By so much it is unlike each of the others, whatever their median is. */
const LEAST_BEYOND = Math.log(1.25);

/** One run in this many may be odd without being a kind of its own. */
const RUNS_PER_ODD_ONE = 15;

/** The weekly pattern counts if with it the last runs vary by less than this share of their variation without it. */
const BETTER_BY_WEEK = 0.7;

/** How many standard deviations count as unusual; the fewer runs there are, the less is known of those. */
const spreads = (runs: number): number => 3.4 + 16 / runs;

/** The median absolute deviation of a normal distribution, as a share of its standard deviation. */
const MAD_OF_NORMAL = 0.6745;

/** The earlier runs that a run is compared with. */
interface Earlier {
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
function judgeRun(run: MeasuredRun, { recent, weeksBefore }: Earlier, alike: readonly MeasuredRun[] = []): Deviation[] {
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
 * The last runs as they would have been at this time of the week: each is moved by the change from its time to this one
 * in the weeks before.
 *
 * @returns null: the weekly pattern explains them no better
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
  const far = Math.max(LEAST_DISTANCE, (median(distances) / MAD_OF_NORMAL) * spreads(recent.length));
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
    const isGap =
      last === undefined || (scale(value) - scale(last) >= LEAST_DISTANCE && value - last >= leastDifference);
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
