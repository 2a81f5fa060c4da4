import type { Deviation, MeasuredRun, Store } from '../../store/contract.ts';
import { findCreep } from './creep.ts';
import { judgeRun, RECENT_RUNS } from './judge.ts';

/** Small, so that no step holds the write lock for long. */
const RUNS_PER_STEP = 200;

/** Whoever waits for an invocation waits for this, too: what is left then is compared by the next one. */
const LONGEST_MS = 2_000;

const DAY_MS = 86_400_000;

/** Around the same time of an earlier day so many runs are looked at. */
const SEASONAL_RUNS = 8;

type Usual = Pick<Store, 'usual' | 'transaction'>;

/**
 * Compares all runs that have succeeded and were not compared yet with those before them, and writes down what was
 * unusual. Each step is one transaction: whoever is killed leaves the rest, and nothing is compared twice.
 */
export async function compareRuns(store: Usual): Promise<void> {
  const endMs = performance.now() + LONGEST_MS;
  while (performance.now() < endMs) {
    const runs = await store.usual.uncompared(RUNS_PER_STEP);
    if (runs.length === 0) return;
    const compared: { id: number; deviations: readonly Deviation[] }[] = [];
    for (const ofScript of Map.groupBy(runs, ({ script }) => script).values()) {
      compared.push(...(await compareAll(store, ofScript)));
    }
    await store.transaction((session) => session.usual.setCompared(compared), 'soon');
  }
}

/** Those of one script: what was before the first of them is read once. */
async function compareAll({ usual }: Usual, runs: readonly MeasuredRun[]) {
  const inOrder = runs.toSorted((one, other) => one.startedAt - other.startedAt || one.id - other.id);
  const [first] = inOrder as [MeasuredRun];
  let before = await usual.successes(first.script, first.startedAt, RECENT_RUNS);
  const compared: { id: number; deviations: readonly Deviation[] }[] = [];
  for (const run of inOrder) {
    compared.push({ id: run.id, deviations: await compareRun(usual, run, before) });
    before = [run, ...before].slice(0, RECENT_RUNS);
  }
  return compared;
}

/** @param before the last successful runs before it, newest first */
export async function compareRun(
  usual: Pick<Usual['usual'], 'successes'>,
  run: MeasuredRun,
  before: readonly MeasuredRun[],
): Promise<Deviation[]> {
  const deviations = judgeRun(run, before);
  const creep = await findCreep(usual, run, before);
  if (deviations.length === 0) return creep;
  return [...judgeRun(run, before, await readSeasonal(usual, run, before)), ...creep];
}

/** Only asked for what is unlike the last runs: another load at weekends or at night is as usual as any. */
async function readSeasonal(
  usual: Pick<Usual['usual'], 'successes'>,
  { script, startedAt }: MeasuredRun,
  before: readonly MeasuredRun[],
): Promise<MeasuredRun[]> {
  const oldest = before.at(-1)?.startedAt ?? startedAt;
  const intervalMs = (startedAt - oldest) / Math.max(1, before.length);
  const seasonal: MeasuredRun[] = [];
  for (const days of [1, 7]) {
    const until = startedAt - days * DAY_MS + (intervalMs * SEASONAL_RUNS) / 2;
    // What lies among the last runs is known.
    if (until <= oldest) seasonal.push(...(await usual.successes(script, until, SEASONAL_RUNS)));
  }
  return seasonal;
}
