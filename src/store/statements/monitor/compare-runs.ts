import { median } from 'simple-statistics';
import { DAY_MS } from '../../../system/base/values.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import { FEWEST_RUNS, judgeRun, RECENT_RUNS } from './judge-run.ts';
import { type Deviation, type MeasuredRun, usualOf } from './usual.ts';

const WEEK_MS = 7 * DAY_MS;

/** Their median counts, so that one odd run is not expected again a week later. */
const WEEKS = 3;

/** Around the same time of an earlier day so many runs are looked at. */
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

/** What ran at the same time of earlier weeks, beside it and beside each one before it. */
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
    // What lies among the last runs is known.
    if (until <= oldest) around.push(...(await usual.successes(script, until, RUNS_AROUND)));
  }
  return around;
}

/** From one run to the next, on average. */
function intervalOf(startedAt: number, before: readonly MeasuredRun[]): number {
  return (startedAt - (before.at(-1)?.startedAt ?? startedAt)) / Math.max(1, before.length);
}

/** At each of so many instants, a week apart, the memory of a few runs is looked at. */
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
    // What did not run for weeks tells nothing of them.
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
