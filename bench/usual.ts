import { compareRun, FEWEST_RUNS, RECENT_RUNS } from '../src/store/statements/monitor/compare-runs.ts';
import type { Deviation, MeasuredRun } from '../src/store/statements/monitor/usual.ts';
import type { Bench, Part } from './bench.ts';

/** How often normal runs are called unusual, and unusual ones are not. */
export const usualParts: Readonly<Record<string, Part>> = { detection };

/** The sample behind the table in bench/README.md. */
const FULL: Sample = { seed: 11, histories: 60, runs: 1000, trials: 40 };

async function detection(bench: Bench): Promise<void> {
  const rows: string[][] = [];
  for (const [name, shape] of Object.entries(shapes)) {
    const detected = await measureDetection(shape, { ...FULL, histories: bench.scaled(FULL.histories) });
    rows.push(rowOf(name, detected));
    if (withoutGoals.includes(name)) continue;
    const { falseAlarms, normalRuns, caught } = detected;
    bench.atMost(`${name}: false alarms in 1,000 normal runs`, (falseAlarms / normalRuns) * 1000, 1);
    for (const fault of faultNames) bench.atLeast(`${name}: ${fault}, caught at the first run`, caught[fault], 0.95);
  }
  bench.table(['history', 'false alarms', ...faultNames], rows);
}

/** What the page says of one kind of history. */
export function rowOf(name: string, { falseAlarms, normalRuns, caught }: Detection): string[] {
  const perThousand = `${((falseAlarms / normalRuns) * 1000).toFixed(2)} in 1,000`;
  return [name, perThousand, ...faultNames.map((fault) => `${(caught[fault] * 100).toFixed(1)} %`)];
}

const HOUR_MS = 3_600_000;
const MB = 1024 * 1024;

/** A figure of each run: what it is on average, and by how much it varies (standard deviation of its logarithm). */
interface Shape {
  readonly everyMs: number;
  readonly noise: number;
  /** So many runs until all of its pattern has been seen once. Default: 5, what is compared at all. */
  readonly period?: number;
  /** By what its duration, output and count are multiplied at that run. */
  factor(at: { readonly run: number; readonly startedAt: number; readonly random: () => number }): number;
}

const isWeekend = (at: number): boolean => [0, 6].includes(new Date(at).getUTCDay());
const isNight = (at: number): boolean => new Date(at).getUTCHours() < 6;

/** Kinds of histories; each is a row of the table in bench/README.md. */
export const shapes: Readonly<Record<string, Shape>> = {
  stable: { everyMs: HOUR_MS, noise: 0.03, factor: () => 1 },
  noisy: { everyMs: HOUR_MS / 4, noise: 0.15, factor: () => 1 },
  trending: { everyMs: HOUR_MS, noise: 0.1, factor: ({ run }) => 1.003 ** run },
  bimodal: { everyMs: HOUR_MS, noise: 0.1, factor: ({ random }) => (random() < 0.3 ? 8 : 1) },
  'bimodal by three': { everyMs: HOUR_MS, noise: 0.1, factor: ({ random }) => (random() < 0.3 ? 3 : 1) },
  'weekly pattern': {
    everyMs: HOUR_MS,
    noise: 0.1,
    period: 7 * 24,
    factor: ({ startedAt }) => (isWeekend(startedAt) ? 4 : 1) * (isNight(startedAt) ? 2 : 1),
  },
  'growing with data': { everyMs: 24 * HOUR_MS, noise: 0.1, factor: ({ run }) => 1 + run / 30 },
  'very noisy': { everyMs: HOUR_MS, noise: 0.4, factor: () => 1 },
};

/** What no goals are set for: there three times as much is nothing special. */
const withoutGoals = ['bimodal by three', 'very noisy'];

/** What a run is made of that is unlike the others. */
const faults = {
  'three times slower': { durationMs: 3 },
  'three times faster': { durationMs: 1 / 3 },
  'three times the memory': { maxRssBytes: 3 },
  'a third of the output': { outputBytes: 1 / 3 },
  'a third of the count': { count: 1 / 3 },
} as const;

const measureOf = { durationMs: 'duration', maxRssBytes: 'memory', outputBytes: 'output', count: 'count' } as const;

export type Fault = keyof typeof faults;
export const faultNames = Object.keys(faults) as readonly Fault[];

export interface Detection {
  /** Of so many normal runs, so many were called unusual. */
  readonly normalRuns: number;
  readonly falseAlarms: number;
  /** The share that was noticed at its first run. */
  readonly caught: Readonly<Record<Fault, number>>;
}

export interface Sample {
  readonly seed: number;
  readonly histories: number;
  readonly runs: number;
  /** Of each fault, in each history. */
  readonly trials: number;
}

/** Once its pattern has been seen, each run is compared with those before it, and now and then one that is unlike them. */
export async function measureDetection(shape: Shape, { seed, histories, runs, trials }: Sample): Promise<Detection> {
  const random = createRandom(seed);
  const { period = FEWEST_RUNS } = shape;
  const caught = Object.fromEntries(faultNames.map((name) => [name, 0])) as Record<Fault, number>;
  let falseAlarms = 0;
  for (let history = 0; history < histories; history += 1) {
    const made = makeHistory(shape, runs, random);
    const log = readerOf(made);
    const compare = (run: MeasuredRun, index: number): Promise<Deviation[]> =>
      compareRun(log, run, made.slice(Math.max(0, index - RECENT_RUNS), index).toReversed());
    for (const [index, run] of made.entries()) {
      if (index >= period && (await compare(run, index)).length > 0) falseAlarms += 1;
    }
    for (const fault of faultNames) {
      for (let trial = 0; trial < trials; trial += 1) {
        const index = period + Math.floor(random() * (runs - period));
        const found = await compare(withFault(made[index] as MeasuredRun, fault), index);
        if (found.some(({ measure }) => measure === measuredBy(fault))) caught[fault] += 1 / (trials * histories);
      }
    }
  }
  return { normalRuns: histories * (runs - period), falseAlarms, caught };
}

function measuredBy(fault: Fault): Deviation['measure'] {
  const [figure] = Object.keys(faults[fault]) as [keyof typeof measureOf];
  return measureOf[figure];
}

function withFault(run: MeasuredRun, fault: Fault): MeasuredRun {
  const {
    durationMs = 1,
    maxRssBytes = 1,
    outputBytes = 1,
    count = 1,
  } = faults[fault] as Partial<Record<keyof typeof measureOf, number>>;
  const { orders = 0 } = run.counts;
  return {
    ...run,
    durationMs: (run.durationMs ?? 0) * durationMs,
    maxRssBytes: (run.maxRssBytes ?? 0) * maxRssBytes,
    outputBytes: Math.round((run.outputBytes ?? 0) * outputBytes),
    counts: { orders: Math.round(orders * count) },
  };
}

const START = Date.UTC(2026, 0, 5);

function makeHistory({ everyMs, noise, factor }: Shape, runs: number, random: () => number): MeasuredRun[] {
  const vary = (value: number, by = noise): number => value * Math.exp(by * normal(random));
  const [durationMs, rssBytes, bytes, orders] = [
    ...[300 * 100 ** random(), 60 * MB * 4 ** random(), 2000 * 10 ** random(), 100 * 10 ** random()],
  ] as [number, number, number, number];
  return Array.from({ length: runs }, (_, run) => {
    const startedAt = START + run * everyMs + Math.floor(random() * 2000);
    const by = factor({ run, startedAt, random });
    return {
      ...{ id: run + 1, script: 'hourly/a', startedAt, durationMs: vary(durationMs * by) },
      maxRssBytes: Math.round(vary(rssBytes, noise / 3)),
      outputBytes: Math.round(vary(bytes * by)),
      counts: { orders: Math.round(vary(orders * by)) },
    };
  });
}

/** What the store answers, of runs in the order of time. */
function readerOf(runs: readonly MeasuredRun[]) {
  return {
    successes: async (_: string, before: number, limit: number): Promise<MeasuredRun[]> => {
      let [low, high] = [0, runs.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((runs[middle] as MeasuredRun).startedAt < before) low = middle + 1;
        else high = middle;
      }
      return runs.slice(Math.max(0, low - limit), low).toReversed();
    },
  };
}

/** The same numbers for the same seed, on any machine: mulberry32. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}
