import { expect, test } from 'vitest';
import { Site } from '../../../src/discovery/site.ts';
import { addJobs } from '../../../src/queue/add/add.ts';
import type { NewJob } from '../../../src/queue/api.ts';
import { readNext } from '../../../src/report/model/next/next.ts';
import type { CrontabTimes } from '../../../src/schedule/crontab-times.ts';
import type { Pause } from '../../../src/store/statements/pauses.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:30Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const files = { 'jobs/queue/mail/welcome.sh': 'true\n', 'jobs/queue/export.sh': 'true\n' };

interface Made extends WrittenLog {
  next(forMs?: number, limit?: number, tier?: string): ReturnType<typeof readNext>;
}

async function makeSite(jobs: readonly NewJob[], more: Readonly<Record<string, string>> = {}): Promise<Made> {
  const root = makeTemporaryRoot({ ...files, ...more });
  const log = await writeLog(root);
  await log.store.transaction((session) => addJobs(session, jobs, now));
  const lines = ['15min', 'hourly'].map((calls) => {
    return { calls, times: calls === 'hourly' ? '20 * * * *' : '*/15 * * * *', zone: null, sieve: null };
  });
  const crontab = async (): Promise<CrontabTimes> => ({ changedAtMs: null, zone: 'UTC', lines });
  const open = () => new Site({ root, env: {}, nowMs: now, store: log.store, problem: null, crontab });
  return {
    ...log,
    next: (forMs = HOUR, limit = 100, tier = undefined) => readNext(open(), { untilMs: now + forMs, limit, tier }),
  };
}

const minutesOf = (atMs: number): number => (atMs - now) / MINUTE;

test('jobs of a name within a minute are one entry, whatever their parameters', async () => {
  const at = (minutes: number) => now - 30_000 + minutes * MINUTE;
  const { next } = await makeSite([
    ...Array.from({ length: 300 }, (_, user) => ({ name: `mail/welcome?user=${user}`, runAt: at(10) + user * 100 })),
    { name: 'mail/welcome', runAt: at(11) },
    { name: 'export', runAt: at(12) },
    { name: 'export', runAt: at(90) },
  ]);
  const { items, more, completeUntilMs } = await next();
  expect(
    items.map(({ kind, name, reason, count, job, atMs }) => [kind, name, reason, count, job, minutesOf(atMs)]),
  ).toEqual([
    ['job', 'mail/welcome', 'delay', 300, null, 9.5],
    ['job', 'mail/welcome', 'delay', 1, 301, 10.5],
    ['job', 'export', 'delay', 1, 302, 11.5],
  ]);
  expect([more, minutesOf(completeUntilMs)]).toEqual([0, 60]);
});

test('a job that repeats has each of its times, a waiting or a running one', async () => {
  const { next, change } = await makeSite([
    { name: 'export', runAt: now + 5 * MINUTE, repeat: 'SCHEDULED, +20 MINUTES' },
    { name: 'mail/welcome', runAt: now - MINUTE, repeat: 'STARTED, +30 MINUTES' },
  ]);
  change(
    `update jobs set state = 'running', ready = null, claim_token = 'a', started_at = ?, lease_expires_at = ? where id = 2`,
    now - MINUTE,
    now + HOUR,
  );
  const { items } = await next();
  expect(items.map(({ name, reason, job, atMs }) => [name, reason, job, minutesOf(atMs)])).toEqual([
    ['export', 'repeat', 1, 5],
    ['export', 'repeat', 1, 25],
    ['mail/welcome', 'repeat', 2, 29],
    ['export', 'repeat', 1, 45],
    ['mail/welcome', 'repeat', 2, 59],
  ]);
});

test('a job that repeats each second cuts the answer where its times were no longer computed', async () => {
  const { next } = await makeSite([
    { name: 'export', runAt: now, repeat: 'FINISHED, +0 SECONDS' },
    { name: 'mail/welcome', runAt: now + 10 * MINUTE },
    { name: 'mail/welcome', runAt: now + 50 * MINUTE },
  ]);
  const { items, completeUntilMs, more } = await next();
  expect(minutesOf(completeUntilMs)).toBeCloseTo(25, 0);
  expect(items.filter(({ name }) => name === 'mail/welcome')).toHaveLength(1);
  expect(items.filter(({ name }) => name === 'export').reduce((sum, { count }) => sum + count, 0)).toBe(1500);
  expect(more).toBe(1);
});

test('due jobs of which nobody takes care did not come: without a handler, paused, or without a worker', async () => {
  const { next, store } = await makeSite([
    { name: 'nobody', runAt: now - MINUTE },
    { name: 'export', runAt: now - MINUTE },
    { name: 'mail/welcome?user=1', runAt: now - 2 * MINUTE },
    { name: 'mail/welcome', runAt: now - MINUTE },
  ]);
  const pause: Pause = {
    name: 'queue/mail/*',
    kind: 'pause',
    until: now + 10 * MINUTE,
    createdAt: now - HOUR,
    by: null,
  };
  await store.pauses.set(pause);
  const { late, items, pauses } = await next();
  expect(late.map(({ name, code, count, sinceMs }) => [name, code, count, minutesOf(sinceMs ?? 0)])).toEqual([
    ['mail/welcome', 'paused', 2, -2],
    ['nobody', 'no-handler', 1, -1],
  ]);
  expect(items.map(({ name, reason }) => [name, reason])).toEqual([['export', 'due']]);
  expect(pauses.map(({ name }) => name)).toEqual(['queue/mail/*']);
});

test('jobs that wait for days without a worker did not come', async () => {
  const { next } = await makeSite([{ name: 'export', runAt: now - 3 * DAY }]);
  const { late, items } = await next();
  expect(late.map(({ name, code }) => [name, code])).toEqual([['export', 'no-worker']]);
  expect(items).toEqual([]);
});

test('passes are among them, with the usual time of their scripts, and paused until the pause ends', async () => {
  const site = await makeSite([], {
    'jobs/15min/a.sh': 'true\n',
    'jobs/15min/b.sh': 'true\n',
    'jobs/hourly/own.sh': '# @schedule daily at 14:10 in UTC\n',
  });
  await site.addRun('15min/a', now - DAY, { duration_us: 90_000_000 });
  await site.store.pauses.set({ name: '15min', kind: 'pause', until: now + 20 * MINUTE, createdAt: now, by: null });
  const { items, passes, late } = await site.next();
  expect(passes.map(({ tier, scripts, usualMs }) => [tier, scripts, usualMs])).toEqual([
    ['15min', ['15min/a', '15min/b'], 90_000],
    ['hourly', [], null],
  ]);
  const told = items.map(({ kind, name, isPaused, usualMs, atMs }) => [kind, name, isPaused, usualMs, minutesOf(atMs)]);
  expect(told).toEqual([
    ['tier', '15min', true, 90_000, 9.5],
    ['script', 'hourly/own', false, null, 14.5],
    ['tier', '15min', false, 90_000, 24.5],
    ['tier', '15min', false, 90_000, 39.5],
    ['tier', '15min', false, 90_000, 54.5],
  ]);
  expect(late).toEqual([]);
  expect((await site.next(HOUR, 2)).more).toBe(3);
  expect((await site.next(7 * DAY, 5000, '15min')).items).toHaveLength(7 * 96);
  await expect(site.next(HOUR, 9, 'houry')).rejects.toThrow('did you mean hourly');
});

test('60 scripts that come four times an hour cut a month where their times were no longer computed', async () => {
  const scripts = Object.fromEntries(
    Array.from({ length: 60 }, (_, index) => [`jobs/15min/s${index}.sh`, '# @schedule every 15min\n']),
  );
  const site = await makeSite([], {
    ...scripts,
    'jobs/hourly/clean.sh': 'true\n',
    'jobs/hourly/own.sh': '# @schedule daily at 14:10 in UTC\n',
  });
  const { items, completeUntilMs, more } = await site.next(31 * DAY, 10_000);
  expect(completeUntilMs - now).toBeGreaterThan(20 * HOUR);
  expect(completeUntilMs - now).toBeLessThan(22 * HOUR);
  expect(items.filter(({ kind }) => kind === 'script').reduce((sum, { count }) => sum + count, 0)).toBe(5000);
  expect(items.filter(({ name }) => name === 'hourly')).toHaveLength(21);
  expect(items.filter(({ name }) => name === 'hourly/own')).toHaveLength(1);
  expect(more).toBe(31 * 24 - 21);
});

test('60,000 delayed jobs beside 300 scripts are answered with little, and soon', async () => {
  const scripts = Object.fromEntries(
    Array.from({ length: 300 }, (_, index) => [`jobs/15min/s${String(index).padStart(3, '0')}.sh`, 'true\n']),
  );
  const { next, change } = await makeSite([{ name: 'mail/welcome', runAt: now + MINUTE }], scripts);
  // Each doubles what there is.
  for (let count = 1; count < 60_000; count *= 2) {
    change(
      `insert into jobs (name, state, ready, run_at, scheduled_for, created_at)
       select name, state, ready, run_at + ?, scheduled_for, created_at from jobs where id <= ?`,
      1318 * count,
      count,
    );
  }
  const startedMs = performance.now();
  const found = await next(DAY, 100);
  const tookMs = performance.now() - startedMs;
  expect(found.items).toHaveLength(100);
  expect(found.more).toBeGreaterThan(1000);
  expect(JSON.stringify(found).length).toBeLessThan(50_000);
  expect(tookMs).toBeLessThan(10_000);
});
