import { expect, test } from 'vitest';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { DAY, HOUR, type Look, look, MINUTE, NOW, wrongOf } from '../../support/alerts.ts';
import { testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';

const files = { 'jobs/15min/poll.sh': 'true\n', 'jobs/daily/backup.sh': 'true\n' };

async function open(scripts: Readonly<Record<string, string>> = files) {
  const root = makeTemporaryRoot(scripts);
  return { root, ...(await writeLog(root)) };
}

/** Cron calls it at the same minute of each period. */
async function call(log: WrittenLog, tier: string, periodMs: number, from: number, until: number): Promise<void> {
  for (let at = from; at <= until; at += periodMs) await log.addPass(tier, at);
}

const overdue = async (log: Awaited<ReturnType<typeof open>>, options: Look = {}) =>
  wrongOf(await look(log, options, 'tier-overdue'));

test('the pass of one tier notices that another one is not called any more', async () => {
  const log = await open();
  const lastDaily = Date.UTC(2027, 10, 1, 3, 30);
  await call(log, 'daily', DAY, lastDaily - 3 * DAY, lastDaily);
  await call(log, '15min', 15 * MINUTE, NOW - 15 * MINUTE, NOW);
  const message = (rest: string) => `daily was last called ${rest}`;
  expect(await overdue(log, { at: lastDaily + DAY })).toEqual([]);
  // Hosts shift cron's minutes, but not by hours.
  expect(await overdue(log, { at: lastDaily + DAY + 50 * MINUTE, upMs: DAY })).not.toContainEqual(
    expect.objectContaining({ subject: 'daily' }),
  );
  expect(await overdue(log, { at: NOW })).toEqual([
    {
      subject: 'daily',
      status: 'warning',
      message: message('2d 10h ago; the next call is overdue by 1d 10h'),
    },
  ]);
  expect(await overdue(log, { at: NOW, checks: { tierOverdue: 3 } })).toEqual([]);
  await call(log, '15min', 15 * MINUTE, NOW + 2 * DAY, NOW + 2 * DAY);
  expect(await overdue(log, { at: NOW + 2 * DAY })).toMatchObject([{ subject: 'daily', status: 'critical' }]);
  expect(await overdue(log, { at: NOW + 2 * DAY, checks: { tierOverdue: null } })).toEqual([]);
});

test('right after a boot nothing had a chance to be called yet', async () => {
  const log = await open();
  await call(log, '15min', 15 * MINUTE, NOW - 2 * DAY, NOW - 2 * DAY);
  await log.addPass('daily', NOW - MINUTE);
  expect(await overdue(log, { upMs: 2 * MINUTE })).toEqual([]);
  expect(await overdue(log, { upMs: 20 * MINUTE })).toMatchObject([{ subject: '15min' }]);
});

test('a tier that was never called is told of once others were called for two of its periods', async () => {
  const log = await open();
  const installed = NOW - 3 * DAY;
  await call(log, '15min', 15 * MINUTE, installed, installed);
  await call(log, '15min', 15 * MINUTE, NOW - 15 * MINUTE, NOW);
  const of = (at: number) => overdue(log, { at });
  expect(await of(NOW)).toEqual([
    {
      subject: 'daily',
      status: 'warning',
      message: 'daily was never called, although other tiers have been called for 3d',
    },
  ]);
  expect((await of(installed + 2 * DAY)).filter(({ subject }) => subject === 'daily')).toEqual([]);
});

test('nothing is expected of a tier without period, without scripts, that is only called by hand, or whose folder is new', async () => {
  const log = await open({
    'jobs/now-and-then/a.sh': 'true\n',
    'jobs/daily/README.md': '',
    'jobs/weekly/a.sh': 'true\n',
  });
  await log.addPass('now-and-then', NOW - 300 * DAY);
  await log.addPass('daily', NOW - 300 * DAY);
  const self = { ...identifyProcess(process.pid), scheduledFor: null, runnerVersion: '1', nodeVersion: '1' };
  const worker = { ...self, kind: 'tier', tier: 'weekly', trigger: 'manual', startedAt: NOW - 100 * DAY } as const;
  await log.store.workers.skip(worker, 'held', 'held');
  expect(await overdue(log)).toEqual([]);
  const fresh = await open({ 'jobs/hourly/a.sh': 'true\n', 'jobs/15min/a.sh': 'true\n' });
  const now = Date.now();
  await call(fresh, '15min', 15 * MINUTE, now - 10 * DAY, now - 10 * DAY);
  await fresh.addPass('15min', now);
  expect(await overdue(fresh, { at: now })).toEqual([]);
});

test('one period has one skipped call at most', async () => {
  const log = await open();
  const held = async (startedAt: number, scheduledFor: number) => {
    const self = { ...identifyProcess(process.pid), scheduledFor, runnerVersion: '1', nodeVersion: '1' };
    await log.store.workers.skip({ ...self, kind: 'tier', tier: '15min', trigger: 'cron', startedAt }, 'held', 'held');
  };
  await log.addPass('15min', NOW - 2 * HOUR);
  for (let call = 0; call < 8; call += 1) await held(NOW - 15 * MINUTE, NOW - 15 * MINUTE);
  await held(NOW, NOW);
  expect(wrongOf(await look(log, {}, 'tier-skipped'))).toEqual([]);
});

test('a tier is skipped several times in a row as its previous pass is still running', async () => {
  const log = await open();
  const skipped = async (options: Look = {}) => wrongOf(await look(log, options, 'tier-skipped'));
  await log.addPass('15min', NOW - 3 * HOUR, { state: 'skipped' });
  await log.addPass('15min', NOW - 2 * HOUR);
  for (const minutes of [45, 30]) await log.addPass('15min', NOW - minutes * MINUTE, { state: 'skipped' });
  expect(await skipped()).toEqual([]);
  await log.addPass('15min', NOW - 15 * MINUTE, { state: 'skipped' });
  expect(await skipped()).toEqual([
    {
      subject: '15min',
      status: 'warning',
      message: '15min was skipped 3 times in a row for 45m, as its previous pass is still running',
    },
  ]);
  expect(await skipped({ checks: { tierSkipped: 4 } })).toEqual([]);
  await log.addPass('15min', NOW);
  expect(await skipped()).toEqual([]);
});

test('a script with a schedule may wait for its time as long as that says, but not once it is queued', async () => {
  const log = await open({ 'jobs/15min/weekly.sh': '# @schedule weekly on monday at 07:00\ntrue\n' });
  await log.addRun('15min/weekly', NOW - 3 * DAY);
  log.change('update jobs set started_at = ?', NOW - 3 * DAY);
  await call(log, '15min', 15 * MINUTE, NOW, NOW);
  const leftOut = async () => wrongOf(await look(log, {}, 'script-overdue'));
  expect(await leftOut()).toEqual([]);
  log.change(`update jobs set state = 'queued', finished_at = null, run_at = ?, reason = 'no time'`, NOW - 4 * HOUR);
  expect(await leftOut()).toMatchObject([{ subject: '15min/weekly', status: 'warning' }]);
});

test('a script that its tier leaves out again and again is told of, a paused or deleted one is not', async () => {
  const log = await open({
    'jobs/15min/poll.sh': 'true\n',
    'jobs/15min/late.sh': 'true\n',
    'jobs/15min/held.sh': 'true\n',
  });
  const add = (script: string, at: number) => log.addRun(script, at);
  for (const name of ['poll', 'late', 'held', 'gone']) await add(`15min/${name}`, NOW - 3 * HOUR);
  const set = 'update jobs set started_at = ? where name = ?';
  log.change('update jobs set started_at = ?', NOW - 3 * HOUR);
  log.change(set, NOW, '15min/poll');
  log.change(`update jobs set state = 'queued', finished_at = null, reason = 'no time' where name = '15min/late'`);
  await log.store.pauses.set({ name: '15min/held', kind: 'pause', until: null, createdAt: NOW - DAY, by: null });
  const leftOut = async (options: Look = {}) => wrongOf(await look(log, options, 'script-overdue'));
  // Nobody has called the tier since.
  expect(await leftOut()).toEqual([]);
  await call(log, '15min', 15 * MINUTE, NOW, NOW);
  expect(await leftOut()).toEqual([
    {
      subject: '15min/late',
      status: 'warning',
      message: '15min/late has not run for 3h, although 15min is called: no time',
    },
  ]);
  expect(await leftOut({ checks: { scriptOverdue: 9 } })).toEqual([]);
});

test('a script that waits for others is told of once it has waited for longer than the slowest of them takes', async () => {
  const log = await open({
    'jobs/15min/copy.sh': '# @after daily/backup\ntrue\n',
    'jobs/15min/alarm.sh': '# @after-failure daily/backup\ntrue\n',
    'jobs/daily/backup.sh': 'true\n',
  });
  await log.addRun('daily/backup', NOW - 3 * DAY, { outcome: 'failed' });
  log.change(`update jobs set state = 'failed' where name = 'daily/backup'`);
  await call(log, '15min', 15 * MINUTE, NOW - HOUR, NOW);
  for (const name of ['15min/copy', '15min/alarm']) {
    await log.store.scriptJobs.enqueue([
      { name, tier: '15min', scheduledFor: null, mayHaveToWait: true, at: NOW - 3 * DAY },
    ]);
  }
  const leftOut = async (at: number) => wrongOf(await look(log, { at }, 'script-overdue'));
  expect(await leftOut(NOW)).toEqual([]);
  expect(await leftOut(NOW + 2 * HOUR)).toEqual([
    {
      subject: '15min/copy',
      status: 'warning',
      message: '15min/copy has waited for 3d 2h: it waits for daily/backup, which failed 3d 2h ago',
    },
  ]);
});

// On a server, a command has a row for each machine.
testOfSqlite(
  'a script that waits for the next end of another one is overdue only if that one is kept from it',
  async () => {
    const log = await open({
      'jobs/hourly/of-command.sh': '# @after exec/backup\ntrue\n',
      'jobs/hourly/of-daily.sh': '# @after 15min/daily\ntrue\n',
      'jobs/hourly/of-new.sh': '# @after 15min/new\ntrue\n',
      'jobs/hourly/behind.sh': '# @after of-daily\ntrue\n',
      'jobs/15min/daily.sh': '# @schedule daily at 03:00\ntrue\n',
      'jobs/15min/new.sh': '# @schedule monthly on the 1st at 03:00\ntrue\n',
    });
    await call(log, '15min', 15 * MINUTE, NOW - HOUR, NOW);
    await call(log, 'hourly', HOUR, NOW - HOUR, NOW);
    for (const name of ['exec/backup', '15min/daily']) await log.addRun(name, NOW - 7 * HOUR);
    log.change(`update jobs set state = 'finished', finished_at = ${NOW - 7 * HOUR}`);
    for (const name of ['of-command', 'of-daily', 'of-new', 'behind']) {
      await log.store.scriptJobs.enqueue([
        { name: `hourly/${name}`, tier: 'hourly', scheduledFor: null, mayHaveToWait: true, at: NOW - 6 * HOUR },
      ]);
    }
    for (const [name, used] of Object.entries({ 'of-command': 'exec/backup', 'of-daily': '15min/daily' })) {
      const ends = JSON.stringify({ [used]: NOW - 7 * HOUR });
      log.change(`update jobs set ends_used = '${ends}' where name = 'hourly/${name}'`);
    }
    const leftOut = async () => wrongOf(await look(log, {}, 'script-overdue'));
    expect(await leftOut()).toEqual([]);
    await log.store.pauses.set({ name: '15min/daily', kind: 'pause', until: null, createdAt: NOW, by: null });
    expect(await leftOut()).toMatchObject([
      { subject: 'hourly/of-daily', message: expect.stringContaining('it waits for 15min/daily, which is paused') },
    ]);
  },
);
