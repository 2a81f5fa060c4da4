import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dueByCrontab } from '../../../src/schedule/crontab-times.ts';
import { machineZone } from '../../../src/system/base/zone.ts';
import { cronEnv, type Ended, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { openReadApi } from '../../support/web/dashboard.ts';

/** The minute before this one, which has begun at least a minute ago. */
function minuteAgo(): Date {
  const date = new Date(Date.now() - 60_000);
  date.setSeconds(0, 0);
  return date;
}

/** Cron goes by the zone of the machine, whatever this process has. */
const cronClock = { timeZone: machineZone() ?? 'UTC', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;

/** A root and its crontab; the line of a tier is for that minute of each day. */
function makeSite(calls: string, due: Date) {
  const root = makeTemporaryRoot({ 'jobs/daily/a.sh': 'exit 0\n', 'jobs/daily/b.sh': '# @retries 1\nexit 1\n' });
  const crontab = makeFakeCrontab();
  const [hour, minute] = new Intl.DateTimeFormat('en-GB', cronClock).format(due).split(':').map(Number);
  crontab.write(`${minute} ${hour} * * * cd ${root} && npx folder-runner ${calls}\n`);
  const env = { ...cronEnv(root), PATH: crontab.env.PATH, FAKE_CRONTAB: crontab.env.FAKE_CRONTAB };
  const call = (...args: readonly string[]): Ended => runCommand(args, { cwd: root, env });
  return { root, crontab, call };
}

test('a pass that comes after the minute of its crontab line is late by that, in all that tells of it', async () => {
  const due = minuteAgo();
  const { root, call } = makeSite('daily', due);
  call('daily');
  const run = JSON.parse(call('show', '1', '--json').stdout);
  const lateMs = Date.parse(run.startedAt) - due.getTime();
  expect(run.scheduledFor).toBe(due.toISOString());
  expect(lateMs).toBeGreaterThanOrEqual(60_000);
  expect(call('show', String(run.id)).stdout).toMatch(
    /\nwas due +\d{4}-\d\d-\d\d \d\d:\d\d:00, \d+m .*before it started\n/,
  );
  const api = openReadApi(root);
  expect((await api.ask(`/api/runs/${run.id}`)).scheduledFor).toBe(due.toISOString());
  const metrics = JSON.parse(call('metrics', 'daily/a', '--json', '--since', '2h').stdout);
  expect(JSON.stringify(metrics)).toContain(`"lateMs":{"mean":${lateMs},"max":${lateMs}}`);
  const asked = await api.ask('/api/metrics/1d?subject=daily/a');
  expect(JSON.stringify(asked)).toContain(`"lateMs":{"mean":${lateMs},"max":${lateMs}}`);
});

test.each([
  ['no line calls its tier', 'hourly', ['daily']],
  ['its script is run alone', 'daily', ['run', 'daily/b']],
])('nobody knows how late a run is where %s', (_, inCrontab, called) => {
  const site = makeSite(inCrontab, minuteAgo());
  site.call(...called);
  const runs = queryLog<{ scheduled_for: number | null }>(site.root, 'select scheduled_for from runs');
  expect(runs.length).toBeGreaterThan(0);
  expect(runs.filter(({ scheduled_for }) => scheduled_for !== null)).toEqual([]);
  expect(site.call('metrics', '--json', '--since', '2h').stdout).not.toMatch(/"(?:mean|max)":\s*\d{5,}/);
});

const at = (time: string): number => Date.parse(`2026-11-${time}:00Z`);

describe('by a crontab in the zone of the host', () => {
  const before = process.env.TZ;
  beforeAll(() => {
    process.env.TZ = 'UTC';
  });
  afterAll(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });

  test.each([
    ['the last time of its line', 'daily', '42 4 * * *', '28T04:43', '28T00:00', '28T04:42'],
    ['one of the day before, in a new period', 'hourly', '59 * * * *', '28T05:01', '28T05:00', '28T04:59'],
    ['the last of several in a period', 'hourly', '*/15 * * * *', '28T05:46', '28T05:00', '28T05:45'],
    ['that of the period that has left it', 'hourly', '19 * * * *', '28T12:19', '28T10:00', '28T10:19'],
    ['one of a month ago', 'monthly', '0 5 1 * *', '28T05:00', '01T00:00', '01T05:00'],
    ['the first of `runner due` in its period', 'due', '17 * * * *', '28T08:17', '28T00:00', '28T00:17'],
  ])('a tier was due at %s', async (_, calls, times, called, slot, due) => {
    const isDue = calls === 'due';
    const crontab = { changedAtMs: null, zone: 'UTC', lines: [{ calls, times, zone: null, sieve: null }] };
    const call = { isDue, calledAtMs: at(called), slotMs: at(slot) };
    const tier = isDue ? 'daily' : calls;
    expect(await dueByCrontab(tier, call, crontab)).toBe(at(due));
    expect(await dueByCrontab(tier, call, { ...crontab, changedAtMs: at(due) + 1 })).toBeNull();
    expect(await dueByCrontab(tier, { ...call, isDue: !isDue }, crontab)).toBeNull();
    expect(await dueByCrontab(tier, call, null)).toBeNull();
  });
});
