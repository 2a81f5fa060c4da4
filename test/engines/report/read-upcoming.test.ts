import { expect, test } from 'vitest';
import { addJobs } from '../../../src/queue/add/add.ts';
import type { NewJob } from '../../../src/queue/api.ts';
import { readUpcoming } from '../../../src/report/model/next/upcoming-jobs.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const MINUTE = 60_000;

const RUNNING = `update jobs set state = 'running', ready = null, claim_token = 'a-token', started_at = ?,
  lease_expires_at = ?`;

async function upcomingOf(jobs: readonly NewJob[], limit: number, pattern = '*') {
  const { store } = await writeLog(makeTemporaryRoot());
  await store.transaction((session) => addJobs(session, jobs, now));
  const upcoming = await readUpcoming(store, { pattern, limit, nowMs: now });
  return upcoming.map(({ atMs, name, isExpected }) => [
    name,
    (atMs - now) / MINUTE,
    ...(isExpected ? ['expected'] : []),
  ]);
}

test('waiting jobs come in the order of time, whatever their priority', async () => {
  const jobs = [
    { name: 'late', runAt: now + 2 * MINUTE, priority: 1000 },
    { name: 'soon', runAt: now + MINUTE },
    { name: 'due', runAt: now - MINUTE },
  ];
  expect(await upcomingOf(jobs, 10)).toEqual([
    ['due', -1],
    ['soon', 1],
    ['late', 2],
  ]);
  expect(await upcomingOf(jobs, 2)).toHaveLength(2);
  expect(await upcomingOf(jobs, 9, 's*')).toEqual([['soon', 1]]);
});

test('a job that repeats stands between the others at each of its times', async () => {
  const jobs = [
    { name: 'often', runAt: now, repeat: 'SCHEDULED, +1 MINUTE' },
    { name: 'between', runAt: now + 1.5 * MINUTE },
    { name: 'seldom', runAt: now + 2 * MINUTE, repeat: 'FINISHED, +1 HOUR' },
  ];
  expect(await upcomingOf(jobs, 6)).toEqual([
    ['often', 0],
    ['often', 1, 'expected'],
    ['between', 1.5],
    ['often', 2, 'expected'],
    ['seldom', 2],
    ['often', 3, 'expected'],
  ]);
});

test('a rule that does not get ahead is shown as it is held back: by a second', async () => {
  const jobs = [{ name: 'busy', runAt: now, repeat: 'FINISHED, +0 SECONDS' }];
  const upcoming = await upcomingOf(jobs, 3);
  expect(upcoming.map(([, minutes]) => Number(minutes) * 60)).toEqual([0, 1, 2]);
});

test('a running job that repeats is there with its next time, and one that does not is missing', async () => {
  const { store, change } = await writeLog(makeTemporaryRoot());
  const jobs = [{ name: 'again', repeat: 'FINISHED, +1 HOUR' }, { name: 'once' }];
  await store.transaction((session) => addJobs(session, jobs, now));
  change(RUNNING, now, now + MINUTE);
  const upcoming = await readUpcoming(store, { pattern: '*', limit: 2, nowMs: now });
  expect(upcoming.map(({ atMs, name }) => [name, (atMs - now) / MINUTE])).toEqual([
    ['again', 60],
    ['again', 120],
  ]);
});

test('an overdue job runs now; its next times are counted from then, and missed times as its policy says', async () => {
  const overdue = { runAt: now - 150 * MINUTE, repeat: 'SCHEDULED, +1 HOUR' };
  const late = -150;
  expect(await upcomingOf([{ ...overdue, name: 'skip', missed: 'skip' }], 3)).toEqual([
    ...[
      ['skip', late],
      ['skip', 30, 'expected'],
      ['skip', 90, 'expected'],
    ],
  ]);
  expect(await upcomingOf([{ ...overdue, name: 'once', missed: 'once' }], 3)).toEqual([
    ...[
      ['once', late],
      ['once', 0, 'expected'],
      ['once', 30, 'expected'],
    ],
  ]);
  expect(await upcomingOf([{ ...overdue, name: 'all' }], 4)).toEqual([
    ...[
      ['all', late],
      ['all', -90, 'expected'],
      ['all', -30, 'expected'],
      ['all', 30, 'expected'],
    ],
  ]);
  const finished = { ...overdue, name: 'finished', repeat: 'FINISHED, +1 HOUR' };
  expect(await upcomingOf([finished], 3)).toEqual([
    ...[
      ['finished', late],
      ['finished', 60, 'expected'],
      ['finished', 120, 'expected'],
    ],
  ]);
});

test('a job that runs, or is tried again, stays in step', async () => {
  const { store, change } = await writeLog(makeTemporaryRoot());
  const repeat = 'SCHEDULED, +1 HOUR';
  const jobs = ['runs', 'waits'].map((name) => ({ name, repeat, runAt: now - 20 * MINUTE }));
  await store.transaction((session) => addJobs(session, jobs, now));
  change(`${RUNNING} where name = 'runs'`, now, now + MINUTE);
  change("update jobs set state = 'retrying', ready = 0, run_at = ? where name = 'waits'", now + 5 * MINUTE);
  const upcoming = await readUpcoming(store, { pattern: '*', limit: 4, nowMs: now });
  expect(upcoming.map(({ atMs, name }) => [name, (atMs - now) / MINUTE])).toEqual([
    ...[
      ['waits', 5],
      ['runs', 40],
      ['waits', 40],
      ['runs', 100],
    ],
  ]);
});

test('a job that was kicked before its time goes on from its run, or from the time that it has used up', async () => {
  const { store, change } = await writeLog(makeTemporaryRoot());
  const runAt = now + 300 * MINUTE;
  const rules = { finished: 'FINISHED, +1 HOUR', scheduled: 'SCHEDULED, +1 HOUR' };
  const jobs = Object.entries(rules).map(([name, repeat]) => ({ name, repeat, runAt }));
  await store.transaction((session) => addJobs(session, jobs, now));
  change('update jobs set run_at = ?', now);
  const upcoming = await readUpcoming(store, { pattern: '*', limit: 4, nowMs: now });
  expect(upcoming.map(({ atMs, name }) => [name, (atMs - now) / MINUTE])).toEqual([
    ...[
      ['finished', 0],
      ['scheduled', 0],
      ['finished', 60],
      ['finished', 120],
    ],
  ]);
});
