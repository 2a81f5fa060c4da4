import { describe, expect, test } from 'vitest';
import { addUp, nearestRank, summarizeRuns } from '../../../src/report/model/runs/runs.ts';
import type { Outcome } from '../../../src/store/words.ts';

interface Run {
  readonly other: Outcome | null;
  readonly durationMs: number | null;
  readonly cpuMs: number | null;
  readonly maxRssBytes: number | null;
}

function run(fields: Partial<Run> = {}): Run {
  return { other: null, durationMs: 100, cpuMs: 40, maxRssBytes: 1000, ...fields };
}

function summarize(runs: readonly Run[]) {
  const known = (figures: readonly (number | null)[]) =>
    figures.filter((figure) => figure !== null).toSorted(ascending);
  const microseconds = (times: readonly (number | null)[]) =>
    Float64Array.from(known(times), (ms) => Math.round(ms * 1000));
  return summarizeRuns({
    runs: runs.length,
    others: runs.flatMap(({ other }) => other ?? []),
    durations: microseconds(runs.map(({ durationMs }) => durationMs)),
    cpu: microseconds(runs.map(({ cpuMs }) => cpuMs)),
    maxRssBytes: known(runs.map(({ maxRssBytes }) => maxRssBytes)).at(-1) ?? null,
  });
}

const ascending = (one: number, other: number): number => one - other;

describe('a summary', () => {
  test('counts everything that ended without success as failed, but for what was given back', () => {
    const others: readonly (Outcome | null)[] = [
      null,
      'failed',
      'timed-out',
      'killed',
      'crashed',
      'not-started',
      'released',
      'released',
      'running',
    ];
    const summary = summarize(others.map((other) => run({ other })));
    expect(summary).toMatchObject({ ...{ runs: 9, succeeded: 1, failed: 5 }, ...{ released: 2, successRate: 1 / 6 } });
  });

  test('takes percentiles that were really measured', () => {
    const runs = Array.from({ length: 20 }, (_, index) => run({ durationMs: (index + 1) * 10 }));
    expect(summarize(runs)).toMatchObject({
      p50DurationMs: 100,
      p95DurationMs: 190,
      maxDurationMs: 200,
      totalDurationMs: 2100,
    });
  });

  test('takes the median of what CPU the runs took', () => {
    const runs = [run({ cpuMs: 0.1 + 0.2 }), run(), run({ cpuMs: 910 })];
    expect(summarize(runs)).toMatchObject({ cpuMs: 40, totalCpuMs: 950.3 });
  });

  test('keeps unknown figures out instead of counting them as 0', () => {
    const unknown = { durationMs: null, cpuMs: null, maxRssBytes: null };
    expect(summarize([run(unknown), run()])).toMatchObject({ p50DurationMs: 100, cpuMs: 40 });
    expect(summarize([run(unknown)])).toMatchObject({
      runs: 1,
      p50DurationMs: null,
      p95DurationMs: null,
      maxDurationMs: null,
      cpuMs: null,
      maxRssBytes: null,
      totalDurationMs: null,
    });
  });

  test('has no success rate before a run has ended', () => {
    expect(summarize([]).successRate).toBeNull();
    expect(summarize([run({ other: 'running' })]).successRate).toBeNull();
    expect(summarize([run({ other: 'released' })]).successRate).toBeNull();
  });
});

test('the nearest rank of one value is that value, for every share', () => {
  for (const share of [0, 0.5, 0.95, 1]) expect(nearestRank(Float64Array.of(7), share)).toBe(7);
  expect(nearestRank(new Float64Array(), 0.5)).toBeNull();
});

test('totals add up scripts, and keep what is unknown everywhere unknown', () => {
  const one = summarize([run(), run({ other: 'failed', maxRssBytes: 9000 })]);
  const left = [run({ other: 'running' }), run({ other: 'released', durationMs: null })];
  const other = summarize([run({ cpuMs: null }), ...left]);
  expect(addUp([one, other])).toEqual({
    runs: 5,
    succeeded: 2,
    failed: 1,
    released: 1,
    successRate: 2 / 3,
    totalDurationMs: 400,
    totalCpuMs: 160,
    maxRssBytes: 9000,
  });
  expect(addUp([])).toMatchObject({ runs: 0, successRate: null, totalCpuMs: null });
});
