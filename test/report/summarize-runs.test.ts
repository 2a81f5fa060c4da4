import { describe, expect, test } from 'vitest';
import { addUp, nearestRank, type RunFigures, summarizeRuns } from '../../src/report/model/runs.ts';

function run(fields: Partial<RunFigures> = {}): RunFigures {
  return {
    outcome: 'succeeded',
    durationMs: 100,
    userCpuMs: 30,
    systemCpuMs: 10,
    maxRssBytes: 1000,
    ...fields,
  };
}

describe('a summary', () => {
  test('counts everything that ended without success as failed, but for what was given back', () => {
    const outcomes = [
      'succeeded',
      'failed',
      'timed-out',
      'killed',
      'crashed',
      'not-started',
      'released',
      'released',
      'running',
    ];
    const summary = summarizeRuns(outcomes.map((outcome) => run({ outcome } as RunFigures)));
    expect(summary).toMatchObject({
      ...{ runs: 9, succeeded: 1, failed: 5 },
      ...{ released: 2, successRate: 1 / 6 },
    });
  });

  test('takes percentiles that were really measured', () => {
    const runs = Array.from({ length: 20 }, (_, index) => run({ durationMs: (index + 1) * 10 }));
    expect(summarizeRuns(runs)).toMatchObject({
      p50DurationMs: 100,
      p95DurationMs: 190,
      maxDurationMs: 200,
      totalDurationMs: 2100,
    });
  });

  test('adds user and system time run by run, and takes the median', () => {
    const runs = [run({ userCpuMs: 0.1, systemCpuMs: 0.2 }), run(), run({ userCpuMs: 900 })];
    expect(summarizeRuns(runs)).toMatchObject({ cpuMs: 40, totalCpuMs: 950.3 });
  });

  test('keeps unknown figures out instead of counting them as 0', () => {
    const unknown = { durationMs: null, userCpuMs: null, systemCpuMs: null, maxRssBytes: null };
    expect(summarizeRuns([run(unknown), run()])).toMatchObject({ p50DurationMs: 100, cpuMs: 40 });
    expect(summarizeRuns([run(unknown)])).toMatchObject({
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
    expect(summarizeRuns([]).successRate).toBeNull();
    expect(summarizeRuns([run({ outcome: 'running' })]).successRate).toBeNull();
    expect(summarizeRuns([run({ outcome: 'released' })]).successRate).toBeNull();
  });
});

test('the nearest rank of one value is that value, for every share', () => {
  for (const share of [0, 0.5, 0.95, 1]) expect(nearestRank(Float64Array.of(7), share)).toBe(7);
  expect(nearestRank(new Float64Array(), 0.5)).toBeNull();
});

test('totals add up scripts, and keep what is unknown everywhere unknown', () => {
  const one = summarizeRuns([run(), run({ outcome: 'failed', maxRssBytes: 9000 })]);
  const left = [run({ outcome: 'running' }), run({ outcome: 'released', durationMs: null })];
  const other = summarizeRuns([run({ userCpuMs: null }), ...left]);
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
