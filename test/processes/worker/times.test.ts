import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { openQueue } from 'folder-runner';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { dueByCrontab } from '../../../src/schedule/crontab-times.ts';
import { machineZone } from '../../../src/system/base/zone.ts';
import { cronEnv, type Ended, pathWithoutCrontab, runCommand, runner, startNode } from '../../support/command.ts';
import { makeFleet } from '../../support/engines/machines.ts';
import { type OwnServer, startOwnPostgres } from '../../support/engines/own-server.ts';
import { noted, notesTime, runAt, runWithFault } from '../../support/faults/faults.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { openReadApi } from '../../support/web/dashboard.ts';

let server: OwnServer;
beforeAll(async () => {
  server = await startOwnPostgres();
}, 120_000);
afterAll(async () => {
  await server?.stop();
});

/** Says which machine runs it for which time, in a file that all of them see. */
const tell = (file: string, tag: string) =>
  `#!/bin/sh\n# ${tag}\necho "$RUNNER_HOST $RUNNER_SCHEDULED_FOR" >> ${file}\n`;

const linesOf = (file: string): readonly string[] =>
  existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').toSorted() : [];

const hostOf = (line: string): string | undefined => line.split(' ')[0];

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** What the clocks here are ahead: a time before their files were there is none of new scripts. */
const AHEAD = 3 * MINUTE;

/** The whole minute before what these clocks show, and its time of day in UTC. */
function lastMinute() {
  const at = new Date(Math.floor((Date.now() + AHEAD) / MINUTE) * MINUTE);
  return { at, time: at.toISOString().slice(11, 16) };
}

test('machines run each time of a schedule once, whichever has a pass first, however wrong its clock is', async () => {
  const fleet = makeFleet(server);
  const ran = join(makeTemporaryRoot(), 'ran');
  const { at, time } = lastMinute();
  const files = { 'jobs/daily/a.sh': tell(ran, `@schedule daily at ${time} in UTC`) };
  const machines = [0, 30, 90].map((skew, index) =>
    fleet.machine(`web-${index}`, files, { skewMs: AHEAD + skew * 1_000 }),
  );
  for (const machine of machines) expect(await machine.call('daily')).toMatchObject({ status: 0, stderr: '' });
  await Promise.all(machines.map((machine) => machine.call('daily')));
  const lines = linesOf(ran);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(at.toISOString());
});

test('a machine whose clock is a day ahead runs a time once, and the others go on', async () => {
  const fleet = makeFleet(server);
  const ran = join(makeTemporaryRoot(), 'ran');
  const files = { 'jobs/daily/a.sh': tell(ran, `@schedule daily at ${lastMinute().time} in UTC`) };
  const ahead = fleet.machine('web-1', files, { skewMs: 3 * DAY });
  const right = fleet.machine('web-2', files, { skewMs: AHEAD });
  for (const machine of [ahead, right, ahead, right]) await machine.call('daily');
  expect(linesOf(ran).map(hostOf)).toEqual(['web-1', 'web-2']);
});

test('after a boot of one machine, only that one runs what asks for it', async () => {
  const fleet = makeFleet(server);
  const ran = join(makeTemporaryRoot(), 'ran');
  const files = { 'jobs/hourly/a.sh': tell(ran, '@reboot'), 'jobs/daily/b.sh': 'exit 0\n' };
  const [one, other] = [fleet.machine('web-1', files, { uptimeS: 0 }), fleet.machine('web-2', files, { uptimeS: 0 })];
  for (const machine of [one, other]) await machine.call('daily');
  // Of a machine that is new to the log, a boot within the last hour is one that it has not run anything after.
  const before = linesOf(ran).map(hostOf);
  await fleet.ask(`update chores set name = 'boot web-1 earlier' where name like 'boot web-1 %'`);
  for (const machine of [other, one, other, one]) await machine.call('daily');
  expect(linesOf(ran).map(hostOf)).toEqual([...before, 'web-1'].toSorted());
});

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

const scheduled = (schedule: string, name: string) => `#!/bin/sh\n# @schedule ${schedule}\n${notesTime(name)}`;

const inBerlin = { 'runner.config.json': '{ "timezone": "Europe/Berlin" }' };

/** A call at that time, in UTC, by a caller with this zone. */
async function callFrom(zone: string, root: string, time: string, ...args: readonly string[]): Promise<string> {
  const clockMs = Date.parse(`${time.replace(' ', 'T')}Z`) - Date.now();
  const env = { PATH: pathWithoutCrontab, TZ: zone };
  const { status, stdout, stderr } = await runWithFault(root, args, { clockMs, env });
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
}

describe('whatever zone its caller has,', () => {
  test('a script with a time of its own runs once for it', async () => {
    const root = makeTemporaryRoot({ 'jobs/15min/a.sh': scheduled('daily at 02:30', 'a') });
    await runAt(root, '2026-11-23 02:18', '15min');
    await runAt(root, '2026-11-23 02:33', '15min');
    await callFrom('America/New_York', root, '2026-11-23 07:35', '15min');
    await callFrom('Asia/Tokyo', root, '2026-11-23 17:35', '15min');
    expect(noted(root)).toEqual(['a 2026-11-23T02:30:00.000Z']);
  });

  test('a tier is due once in its period', async () => {
    const root = makeTemporaryRoot({ 'jobs/daily/a.sh': notesTime('a') });
    await runAt(root, '2026-11-22 23:50', 'due');
    await runAt(root, '2026-11-23 00:05', 'due');
    await callFrom('America/New_York', root, '2026-11-23 05:10', 'due');
    await callFrom('Pacific/Kiritimati', root, '2026-11-23 10:10', 'due');
    expect(noted(root)).toEqual(['a 2026-11-23T00:00:00.000Z']);
  });

  test('the times that are shown are the same', async () => {
    const root = makeTemporaryRoot({ 'jobs/15min/a.sh': scheduled('daily at 02:30', 'a'), ...inBerlin });
    await runAt(root, '2026-11-23 01:18', '15min');
    const [here, there] = [
      await callFrom('UTC', root, '2026-11-23 01:20', 'why', 'a'),
      await callFrom('Asia/Tokyo', root, '2026-11-23 01:20', 'why', 'a'),
    ];
    expect(there).toBe(here);
    expect(here).toContain('23 Nov 02:30');
  });
});

test('`timezone` of the settings is where days begin, and the zone of schedules that name none', async () => {
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': notesTime('a'),
    'jobs/hourly/b.sh': scheduled('daily at 02:30', 'b'),
    ...inBerlin,
  });
  for (const time of ['22:50', '23:05']) await callFrom('UTC', root, `2026-11-22 ${time}`, 'due');
  for (const time of ['01:05', '02:05', '03:05']) await callFrom('Asia/Tokyo', root, `2026-11-23 ${time}`, 'due');
  expect(noted(root)).toEqual(['a 2026-11-22T23:00:00.000Z', 'b 2026-11-23T01:30:00.000Z']);
});

describe('a job whose rule names no zone', () => {
  const program = `
    const { openQueue } = await import('folder-runner');
    const queue = await openQueue({ root: process.argv[1] });
    await queue.add('rep', undefined, { repeat: 'daily at 10:00' });
    await queue.close();
    console.log(process.env.TZ, new Date(0).getHours());`;

  test('has its times in the zone of all others, and the program that adds it keeps its own', async () => {
    const root = makeTemporaryRoot({ 'jobs/queue/rep.sh': 'exit 0\n', ...inBerlin });
    const place = { cwd: join(import.meta.dirname, '../../..'), env: { TZ: 'Asia/Tokyo' } };
    const { stdout, stderr } = await startNode(['--input-type=module', '-e', program, root], place).ended;
    expect([stdout, stderr]).toEqual(['Asia/Tokyo 9\n', '']);
    const queue = await openQueue({ root });
    onTestFinished(() => queue.close());
    const [job] = await queue.list();
    const hour = new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Berlin', timeStyle: 'short' });
    expect(hour.format(job?.runAt)).toBe('10:00');
    rmSync(join(root, 'runner.config.json'));
  });
});

const afterBoot = (name: string) => `#!/bin/sh\n# @reboot\n${notesTime(name)}`;

const files = {
  'jobs/hourly/each.sh': notesTime('each'),
  'jobs/hourly/boot.sh': afterBoot('hourly'),
  'jobs/daily/boot.sh': afterBoot('daily'),
  'jobs/by-hand/boot.sh': afterBoot('by-hand'),
};

const starts = (root: string) => noted(root).map((line) => line.split(' ')[0]);

/** As if the machine had been booted since the last call, so long ago. */
function callAfterBoot(root: string, tier: string, uptimeS = 0) {
  const earlier = `boot ${hostname()} earlier`;
  expect(changeLog(root, `update chores set name = '${earlier}' where name like 'boot %'`)).toBe(1);
  return runWithFault(root, [tier], { uptimeS });
}

test('after a boot the next pass of any tier runs the scripts of all tiers that ask for it, once', async () => {
  const root = makeTemporaryRoot(files);
  runner(root, 'hourly');
  // However fresh the last boot is: they were not there yet.
  expect(starts(root)).toEqual(['each']);
  const before = noted(root).length;
  await callAfterBoot(root, 'hourly');
  expect(starts(root).slice(before).toSorted()).toEqual(['by-hand', 'daily', 'each', 'hourly']);
  runner(root, 'daily');
  runner(root, 'hourly');
  runner(root, 'due');
  expect(starts(root).slice(before + 4)).toEqual(['each']);
  expect(queryLog(root, `select name from chores where name like 'boot %'`)).toHaveLength(1);
});

test('`npx folder-runner due` runs them too, and a script that is added later waits for the next boot', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/each.sh': notesTime('each') });
  runner(root, 'hourly');
  writeFileSync(join(root, 'jobs/hourly/late.sh'), afterBoot('late'));
  runner(root, 'due');
  runner(root, 'hourly');
  expect(starts(root)).toEqual(['each', 'each']);
  await callAfterBoot(root, 'due');
  expect(starts(root)).toEqual(['each', 'each', 'late']);
});

test('by hand it runs whenever somebody asks', () => {
  const root = makeTemporaryRoot(files);
  runner(root, 'run', 'by-hand/boot');
  expect(starts(root)).toEqual(['by-hand']);
  runner(root, 'by-hand');
  expect(starts(root)).toEqual(['by-hand']);
});

test('one that fails is tried again as its tags say', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/each.sh': 'exit 0\n' });
  runner(root, 'hourly');
  const fails = `#!/bin/sh\n# @reboot\n# @retries 1\n# @retry-delay 1ms\n${notesTime('boot')}exit 1\n`;
  writeFileSync(join(root, 'jobs/hourly/boot.sh'), fails);
  await callAfterBoot(root, 'hourly');
  runner(root, 'hourly');
  expect(starts(root)).toEqual(['boot', 'boot']);
});

test('a script that came after the boot waits for the next one: before an import its crontab line has run', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/each.sh': 'exit 0\n' });
  runner(root, 'hourly');
  writeFileSync(join(root, 'jobs/hourly/boot.sh'), afterBoot('boot'));
  await callAfterBoot(root, 'hourly', 600);
  expect(starts(root)).toEqual([]);
  await callAfterBoot(root, 'hourly');
  expect(starts(root)).toEqual(['boot']);
  writeFileSync(join(root, 'jobs/hourly/boot.sh'), afterBoot('changed'));
  await callAfterBoot(root, 'hourly', 600);
  expect(starts(root)).toEqual(['boot', 'changed']);
});
