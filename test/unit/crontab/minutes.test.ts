import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type LinesRequest, planLines } from '../../../src/hosting/crontab/lines.ts';
import { dueCall, tierCalls, workCall } from '../../../src/hosting/crontab/plan.ts';
import { type CronPeriod, chooseMinutes, parseCronPeriod, type TimedCall } from '../../../src/hosting/crontab/times.ts';

const calls = (...tiers: string[]): TimedCall[] =>
  tiers.map((name) => ({ name, period: parseCronPeriod(name) as CronPeriod }));
const usual = calls('15min', 'hourly', 'daily', 'weekly', 'monthly');
const unusual = fc.subarray(['5min', '10min', '20min', '30min', '2hours', '12hours', '3days', '1min', '45min']);

test('no two of the usual tiers start in the same minute, nor within two of each other', () => {
  fc.assert(
    fc.property(fc.string(), (root) => {
      const [quarter = 0, ...others] = chooseMinutes(root, usual);
      const starts = [0, 15, 30, 45].map((minute) => minute + quarter).concat(others);
      const sorted = starts.toSorted((a, b) => a - b);
      const gaps = sorted.map((minute, index) => (sorted[index + 1] ?? minute + 60) - minute);
      expect(Math.min(...gaps)).toBeGreaterThanOrEqual(3);
    }),
  );
});

test('the minutes in which everybody starts are left free', () => {
  fc.assert(
    fc.property(fc.string(), (root) => {
      expect(chooseMinutes(root, usual).filter((minute) => minute % 15 === 0)).toEqual([]);
    }),
  );
});

test('two accounts start at different minutes, one account always at the same', () => {
  const roots = Array.from({ length: 50 }, (_, index) => `/home/user${index}/runner`);
  const hourly = roots.map((root) => chooseMinutes(root, usual)[1]);
  expect(new Set(hourly).size).toBeGreaterThan(15);
  expect(roots.map((root) => chooseMinutes(root, usual)[1])).toEqual(hourly);
});

test('a usual tier keeps its minute whatever other tiers there are', () => {
  fc.assert(
    fc.property(fc.string(), fc.subarray(usual), unusual, (root, some, others) => {
      const all = chooseMinutes(root, usual);
      const found = chooseMinutes(root, [...calls(...others), ...some]).slice(others.length);
      expect(found).toEqual(some.map((call) => all[usual.indexOf(call)]));
    }),
  );
});

test('a tier of each minute leaves no minute free, and every tier still has one', () => {
  expect(chooseMinutes('/home/me', calls('1min', '5min', 'hourly'))).toEqual([
    0,
    expect.toSatisfy((minute: number) => minute >= 0 && minute < 5),
    expect.toSatisfy((minute: number) => minute >= 0 && minute < 60),
  ]);
});

describe('installed lines', () => {
  const request = (tiers: readonly string[], installed: readonly string[] = []): LinesRequest => ({
    root: '/home/me',
    script: '~/.folder-runner/cron',
    calls: tierCalls(tiers),
    installed,
  });
  const crontabLines = (asked: LinesRequest) => planLines(asked).lines;

  test('keep their minutes whatever comes and goes, and new ones keep clear of them', () => {
    fc.assert(
      fc.property(unusual, unusual, fc.nat(59), (before, after, minute) => {
        const first = crontabLines(request([...before, 'hourly'])).map((line) =>
          line.endsWith(' hourly /home/me') ? line.replace(/^\d+/, String(minute)) : line,
        );
        const tiers = [...new Set([...before, ...after, 'hourly', 'daily'])];
        const lines = crontabLines(request(tiers, first));
        expect(lines).toEqual(expect.arrayContaining(first));
        expect(lines).toHaveLength(tiers.length);
        const daily = Number(lines.find((line) => line.endsWith(' daily /home/me'))?.split(' ')[0]);
        expect(daily).not.toBe(minute);
      }),
    );
  });

  test('keep times that somebody has chosen', () => {
    const [line = ''] = crontabLines(request(['daily']));
    for (const times of ['7 * * * *', '@daily', '*/5 * * * *', '7 23 * * 1-5']) {
      const changed = line.replace(/^(?:\S+ ){5}/, `${times} `);
      expect(crontabLines(request(['daily'], [changed]))).toEqual([changed]);
    }
  });

  test('that call all tiers, or work off the queue, keep theirs, too', () => {
    const all = [dueCall(['15min'], []), workCall(5)];
    const lines = crontabLines({ ...request([]), calls: all });
    const moved = lines.map((line) => line.replace(/^\d+/, (minute) => String((Number(minute) + 1) % 5)));
    expect(moved).not.toEqual(lines);
    expect(crontabLines({ ...request([], moved), calls: all })).toEqual(moved);
    const more = crontabLines({ ...request([], moved), calls: [dueCall(['5min'], []), workCall(5)] });
    expect(more).toEqual([expect.stringMatching(/^[0-4]-59\/5 .* due /), moved[1]]);
  });
});
