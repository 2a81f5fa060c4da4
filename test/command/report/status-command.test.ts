import { randomUUID } from 'node:crypto';
import { realpathSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { newSpoolPath } from '../../../src/store/spool/files.ts';
import { machineZone } from '../../../src/system/base/zone.ts';
import { takeLockFile } from '../../../src/system/lock/lock-file.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { mayNeedReconciling } from '../../../src/worker/recovery/tier-lock.ts';
import { callCommand, commandPath, cronEnv, inRoot, runCommand } from '../../support/command.ts';
import { makeSpooledEnd, makeSpoolHeader, toLines } from '../../support/faults/spool.ts';
import { executable, makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';
import { running, writeLog } from '../../support/written-log.ts';

const HOUR = 3_600_000;
const says = executable('#!/bin/sh\necho said\n');

test('where nothing goes on, status is short', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says, 'jobs/by-hand/b.sh': says });
  expect(await inRoot(root, 'status')).toEqual({
    status: 0,
    stderr: '',
    stdout: `Nothing has run yet

Nothing is running, nothing is waiting.

tier     last pass  next
hourly   –          never called by cron (every hour)
by-hand  –          runs by hand

times in UTC
`,
  });
});

test('status tells what runs, for how long and since when, and who has the lock', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says });
  const log = await writeLog(root);
  const now = Date.now();
  await log.addRun('hourly/a', now - 30 * HOUR, { duration_us: 130_000_000 });
  const pass = await log.addPass('hourly', now - 61_000, { state: 'running', pid: process.pid });
  const run = await log.addRun('hourly/a', now - 60_000, {
    ...running,
    worker_id: pass,
    pid: process.pid,
    attempt: 2,
    max_rss_bytes: 48 * 1024 ** 2,
  });
  const { stdout } = await inRoot(root, 'status');
  expect(stdout).toMatch(
    new RegExp(
      `^Everything is well\\n\\nrunning\\n  hourly/a · for 1m[^,]*, usually 2m 10s · try 2 · 48MB · since .* · pid ${process.pid} · run ${run}\\n`,
    ),
  );
  expect(stdout).toContain(`running: pid ${process.pid} on ${hostname()}, since `);
  expect(JSON.parse((await inRoot(root, 'status', '--json')).stdout)).toMatchObject({
    running: [{ id: run, attempt: 2, usualDurationMs: 130_000, isOrphan: false, liveness: 'alive' }],
    tiers: [{ tier: 'hourly', holder: { kind: 'tier', pid: process.pid, host: hostname() } }],
  });
});

test('status tells what waits, and why', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\n# @retries 3\n# @retry-delay 10m\nexit 3\n'),
    'jobs/daily/b.sh': says,
  });
  expect((await inRoot(root, 'hourly')).status).toBe(1);
  const log = await writeLog(root);
  const at = Date.now();
  const reason = 'the load average is 7.2 (maxLoad 4)';
  const [b] = await log.store.scriptJobs.enqueue([{ name: 'daily/b', tier: 'daily', scheduledFor: null, at }]);
  await log.store.jobs.change([{ id: b as number, set: { reason } }], at);
  const { stdout } = await inRoot(root, 'status');
  expect(stdout).toMatch(
    /^1 script failed and will be tried again\n\nNothing is running\.\n\nwaiting\n {2}daily\/b · deferred, waiting since /,
  );
  expect(stdout).toMatch(/\n {2}hourly\/a · try 2 due \d+ [A-Z][a-z]{2} \d\d:\d\d · exit code 3\n/);
  expect(JSON.parse((await inRoot(root, 'status', '--json')).stdout).waiting).toMatchObject([
    { script: 'daily/b', state: 'deferred', reason, attempts: 0 },
    { script: 'hourly/a', state: 'retrying', reason: 'exit code 3', attempts: 1 },
  ]);
  expect((await inRoot(root, 'report')).stdout).toMatch(/\n {4}try 2 due .*\n/);
});

test('status tells of a tier that cron has stopped calling, and of one that it calls', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says, 'jobs/daily/b.sh': says });
  const log = await writeLog(root);
  await log.addPass('hourly', Date.now() - 3 * HOUR);
  await log.addPass('daily', Date.now() - 3 * HOUR);
  const { stdout } = await inRoot(root, 'status');
  expect(stdout).toMatch(/\nhourly .* overdue since .*: cron has not called it\n/);
  expect(stdout).toMatch(/\ndaily .*, in (20|21|22)h/);
  expect(stdout).toContain('`npx folder-runner doctor` checks why cron does not call.');
});

test('status tells of what waits to be taken in and of logs that were set aside', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says });
  const { state } = await writeLog(root);
  writeFileSync(`${state.database}.broken-20261103-140500`, '');
  writeFileSync(`${state.database}.broken-20261103-140500-wal`, '');
  const spooled = newSpoolPath(state, { startedAt: Date.now(), pid: process.pid });
  const lines = toLines(makeSpoolHeader(), ...[1, 2].map(() => makeSpooledEnd(randomUUID())));
  writeFileSync(spooled, lines, { mode: 0o600 });
  const { stdout, status } = await inRoot(root, 'status');
  expect(status).toBe(0);
  expect(stdout).toContain('1 broken log quarantined in .runner/: activity.db.broken-20261103-140500\n');
  const waits = '2 runs wait in the spool, because the log could not be written; the next pass takes them in.\n';
  expect(stdout).toContain(waits);
  expect(await inRoot(root, 'report')).toMatchObject({ status: 0, stderr: `Note: ${waits}` });
  expect(await inRoot(root, 'why', 'a')).toMatchObject({ status: 0, stderr: `Note: ${waits}` });
});

test('a file in the spool’s folder that is not the runner’s holds nothing up', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says });
  const { state, store } = await writeLog(root);
  for (const name of ['x.jsonl', 'x.part']) writeFileSync(join(state.spool, name), 'a note\n');
  expect(JSON.parse((await inRoot(root, 'status', '--json')).stdout)).toMatchObject({ spooledRuns: 0 });
  expect(await mayNeedReconciling({ root, state }, store)).toBe(false);
});

test('status fits a narrow terminal, and shows nothing raw', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says });
  const log = await writeLog(root);
  const name = `hourly/${'very-long-'.repeat(12)}\x1b[2J`;
  const pass = await log.addPass('hourly', Date.now(), { state: 'running', pid: process.pid });
  await log.addRun(name, Date.now(), { ...running, worker_id: pass, pid: process.pid });
  const { stdout } = await inRoot(root, 'status');
  expect(stdout).not.toContain('\x1b');
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(110);
});

test('status names a pass that works without the log by its lock file', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says });
  const self = { ...identifyProcess(process.pid), since: Date.now() };
  const lock = await takeLockFile(makeStateOf(root).locks, 'hourly', self, () => {});
  if (!('release' in lock)) throw new Error('somebody else has the lock');
  expect((await inRoot(root, 'status')).stdout).toMatch(
    new RegExp(`hourly +– +without the log: pid ${process.pid} on ${hostname()}, since `),
  );
  await lock.release();
  expect((await inRoot(root, 'status')).stdout).toContain('Nothing is running, nothing is waiting.');
});

test('status shows the times of the machine or of the settings, and says so, whatever zone its caller has', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says });
  const zoneOf = (TZ: string) =>
    /\ntimes in (.+)\n/.exec(runCommand(['status'], { cwd: root, env: { ...cronEnv(root), TZ } }).stdout)?.[1];
  expect(zoneOf('Asia/Kathmandu')).toBe(machineZone());
  writeFileSync(join(root, 'runner.config.json'), '{ "timezone": "Europe/Berlin" }');
  expect([zoneOf('Asia/Kathmandu'), zoneOf('')]).toEqual(['Europe/Berlin', 'Europe/Berlin']);
});

test('with wrong settings status says that nothing will start', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says, 'runner.config.json': '{"nope":1}' });
  const { stdout, stderr, status } = await inRoot(root, 'status', '--json');
  expect(status).toBe(0);
  expect(JSON.parse(stdout).tiers).toHaveLength(1);
  expect(stderr).toMatch(/^Note: no call starts anything until the settings are fixed\. runner\.config\.json:1: nope /);
});

test('without a readable log status still shows the tiers', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': says });
  const { state } = await writeLog(root);
  writeFileSync(state.database, 'no database at all, whatever SQLite makes of it'.repeat(100));
  const { stdout, stderr, status } = await inRoot(root, 'status');
  expect(status).toBe(0);
  expect(stdout).toContain('Unknown without the log: what is running');
  expect(stdout).not.toContain('never');
  expect(stderr).toMatch(/^Note: the activity log could not be read\. /);
  const { queue, isLogUnread } = JSON.parse((await inRoot(root, 'status', '--json')).stdout);
  expect(isLogUnread).toBe(true);
  expect(queue).toEqual({
    ...{ ready: null, delayed: null, running: null, paused: null, failed: null, workers: null },
    ...{ idleWorkers: null, waiting: [], withoutHandler: [], pace: null },
  });
});

describe('with a crontab that can be read', () => {
  const place = () => {
    const root = realpathSync(makeTemporaryRoot({ 'jobs/hourly/a.sh': says, 'jobs/15mins/b.sh': says }));
    const crontab = makeFakeCrontab();
    const call = (...args: string[]) =>
      callCommand(args, { cwd: root, env: { ...crontab.env, COLUMNS: '110', TZ: 'UTC' } });
    return { root, crontab, call };
  };

  test('it is said at once that no line calls a tier, what helps, and when the first call comes', async () => {
    const { call } = place();
    expect((await call('status')).stdout).toMatch(
      /\nhourly +– +no crontab line calls it\n[\s\S]*`npx folder-runner cron --install` writes a crontab line/,
    );
    expect((await call('why', 'hourly/a')).stdout).toContain(
      'because no crontab line calls hourly: run `npx folder-runner cron',
    );
    await call('cron', '--install');
    expect((await call('status')).stdout).toMatch(
      /\nhourly +– +\d+ [A-Z][a-z]{2} \d\d:\d\d, in \d+[ms].* \(first call\)\n/,
    );
    const { stdout } = await call('why', 'hourly/a');
    expect(stdout).toMatch(/✔ called +not yet; its crontab line calls it first at /);
    expect(stdout).toMatch(/It will run with the first pass of hourly, at \d+ [A-Z][a-z]{2} \d\d:\d\d\./);
    await call('cron', '--remove');
    expect((await call('status')).stdout).toMatch(/\nhourly +– +no crontab line calls it\n/);
  });

  test('after a call without a terminal no next one is promised that no line makes', async () => {
    const { root, call } = place();
    const log = await writeLog(root);
    await log.addPass('hourly', Date.now() - HOUR - 60_000);
    const { stdout } = await call('status');
    expect(stdout).toMatch(/\nhourly +\d+ \w{3} \d\d:\d\d +no crontab line calls it\n/);
    const why = (await call('why', 'hourly/a')).stdout;
    expect(why).toMatch(/✖ called +no crontab line calls it; last called without a terminal \d+ \w{3} \d\d:\d\d\n/);
    expect(why).toContain('because no crontab line calls hourly: run `npx folder-runner cron');
    // As a timer of systemd does, or another user's crontab.
    await log.addPass('hourly', Date.now() - 60_000);
    expect((await call('status')).stdout).toMatch(/\nhourly +\d+ \w{3} \d\d:\d\d +\d+ \w{3} \d\d:\d\d, in \d/);
    await call('cron', '--install');
    expect((await call('why', 'hourly/a')).stdout).toMatch(/✔ called +cron called it .*, next at /);
  });

  test('the next call is the time of the line, and a first call that did not come is overdue', async () => {
    const { root, crontab, call } = place();
    const inThreeHours = new Date(Date.now() + 3 * HOUR);
    const [minute, hour] = [inThreeHours.getUTCMinutes(), inThreeHours.getUTCHours()];
    crontab.write(`${minute} ${hour} * * * ${process.execPath} ${commandPath} --root ${root} hourly\n`);
    const log = await writeLog(root);
    await log.addPass('hourly', Date.now() - HOUR / 2);
    const tierOf = async () => JSON.parse((await call('status', '--json')).stdout).tiers[0];
    const nextCall = new Date(inThreeHours).setSeconds(0, 0);
    expect(await tierOf()).toMatchObject({
      isInCrontab: true,
      nextCall: new Date(nextCall).toISOString(),
      isOverdue: false,
    });
    expect((await call('why', 'hourly/a')).stdout).toMatch(/✔ called +cron called it .*, next at /);
  });

  test('the time of a line below CRON_TZ is one of that zone', async () => {
    const { root, crontab, call } = place();
    const calls = `${process.execPath} ${commandPath} --root ${root} hourly`;
    crontab.write(`CRON_TZ="Asia/Tokyo"\n30 9 * * * ${calls}\n`);
    const { tiers } = JSON.parse((await call('status', '--json')).stdout);
    expect(tiers[0]).toMatchObject({ isInCrontab: true, nextCall: expect.stringMatching(/T00:30:00\.000Z$/) });
  });

  test('a folder that no line can call is named, with what was meant', async () => {
    const { call } = place();
    expect((await call('status')).stdout).toMatch(/\n15mins +– +cron cannot call it; did you mean 15min\?\n/);
    expect((await call('list')).stdout).toContain(
      '15mins · not a schedule name, so cron never runs it; did you mean 15min?\n',
    );
    expect((await call('why', '15mins/b')).stdout).toMatch(/! tier +15mins is not a schedule name/);
  });
});
