import { expect, test } from 'vitest';
import { Site } from '../../../src/discovery/site.ts';
import { readNext } from '../../../src/report/model/next/next.ts';
import { readNextTimes } from '../../../src/report/model/next/next-times.ts';
import type { CrontabTimes } from '../../../src/schedule/crontab-times.ts';
import { namesInPass } from '../../../src/system/base/wait-words.ts';
import { executable, makeTemporaryRoot, writeFiles } from '../../support/root.ts';
import { running, writeLog } from '../../support/written-log.ts';

/* Scripts that wait for others, or for their window, in what comes. */

const now = Date.parse('2026-11-03T14:05:30Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * A site whose tiers are called at 20 past each hour, and at 03:00.
 *
 * @param scripts tags by names such as `hourly/a`
 */
async function makeSite(scripts: Readonly<Record<string, readonly string[]>>) {
  const root = makeTemporaryRoot(
    Object.fromEntries(
      Object.entries(scripts).map(([name, tags]) => [
        `jobs/${name}.sh`,
        executable(['#!/bin/sh', ...tags.map((tag) => `# ${tag}`), 'true\n'].join('\n')),
      ]),
    ),
  );
  const log = await writeLog(root);
  const lines = Object.entries({ hourly: '20 * * * *', daily: '0 3 * * *' }).map(([calls, times]) => {
    return { calls, times, zone: null, sieve: null };
  });
  const crontab = async (): Promise<CrontabTimes> => ({ changedAtMs: null, zone: 'UTC', lines });
  for (const tier of ['hourly', 'daily']) await log.addPass(tier, now - 45 * MINUTE);
  const open = () => new Site({ root, env: {}, nowMs: now, store: log.store, problem: null, crontab });
  /** What comes of scripts: `03:10 daily/report after`. */
  const next = async (forMs = DAY, tier?: string) => {
    const found = await readNext(open(), { untilMs: now + forMs, limit: 1000, tier });
    const ofScripts = found.items.filter(({ kind }) => kind === 'script');
    return { ...found, told: ofScripts.map(({ atMs, name, reason }) => `${timeOf(atMs)} ${name} ${reason}`) };
  };
  return {
    ...log,
    root,
    open,
    next,
    /** Has succeeded for days, at that time of the day, and takes so long. */
    usually: async (script: string, minutes: number) => {
      for (const day of [5, 4, 3, 2]) {
        await log.addRun(script, now - day * DAY, { duration_us: minutes * MINUTE * 1000 });
      }
    },
    queue: async (script: string, scheduledFor: number) => {
      const [tier = ''] = script.split('/');
      const job = { name: script, tier, scheduledFor, mayHaveToWait: true, at: scheduledFor };
      await log.store.transaction(({ scriptJobs }) => scriptJobs.enqueue([job]));
    },
    /** Has used all that has come. */
    use: (script: string, ends: Readonly<Record<string, number>>) =>
      log.change(`update jobs set ends_used = ? where name = '${script}'`, JSON.stringify(ends)),
  };
}

const timeOf = (atMs: number): string => new Date(atMs).toISOString().slice(11, 16);

test('a script that waits for one that runs comes at the usual end of that, and those behind it follow', async () => {
  const site = await makeSite({ 'daily/dump': [], 'daily/load': ['@after dump'], 'daily/tell': ['@after load'] });
  await site.usually('daily/dump', 30);
  await site.usually('daily/load', 5);
  await site.addRun('daily/dump', now - 10 * MINUTE, { ...running, pid: process.pid });
  await site.queue('daily/load', now - 10 * MINUTE);
  await site.queue('daily/tell', now - 10 * MINUTE);
  const { told, items, waiting, passes } = await site.next(HOUR);
  expect(told).toEqual(['14:25 daily/load after', '14:30 daily/tell after']);
  expect(items.find(({ name }) => name === 'daily/load')).toMatchObject({
    ...{ links: [{ kind: 'after', script: 'daily/dump' }], usualMs: 5 * MINUTE, dueMs: null },
  });
  expect(waiting).toEqual([]);
  expect(passes.find(({ tier }) => tier === 'daily')?.linked).toEqual([
    { script: 'daily/load', links: [{ kind: 'after', script: 'daily/dump' }], between: null, except: [] },
    { script: 'daily/tell', links: [{ kind: 'after', script: 'daily/load' }], between: null, except: [] },
  ]);
});

test('a script that waits for one that has failed comes behind the next pass of that, or waits beyond what is asked', async () => {
  const site = await makeSite({
    'daily/dump': [],
    'hourly/report': ['@after daily/dump'],
    'hourly/alarm': ['@after-failure daily/gone'],
    'daily/gone': [],
  });
  await site.usually('daily/dump', 10);
  await site.addRun('daily/dump', now - HOUR, { outcome: 'failed', exit_code: 1 });
  await site.queue('hourly/report', now - 40 * MINUTE);
  await site.queue('hourly/alarm', now - 40 * MINUTE);
  expect((await site.next(DAY)).told).toEqual(['03:10 hourly/report after']);
  const short = await site.next(2 * HOUR, 'hourly');
  expect(short.told).toEqual([]);
  expect(short.items.map(({ name }) => name)).toEqual(['hourly', 'hourly']);
  expect(short.waiting).toEqual([
    {
      ...{ script: 'hourly/alarm', sinceMs: now - 40 * MINUTE },
      links: [{ kind: 'afterFailure', script: 'daily/gone' }],
      reason: 'waits for a failure of daily/gone',
    },
    {
      ...{ script: 'hourly/report', sinceMs: now - 40 * MINUTE },
      links: [{ kind: 'after', script: 'daily/dump' }],
      reason: `waits for daily/dump, which failed ${new Date(now - HOUR + 100).toISOString()}`,
    },
  ]);
  await site.store.pauses.set({ name: 'daily/dump', kind: 'pause', until: now + 2 * DAY, createdAt: now, by: null });
  const paused = await site.next(DAY);
  expect(paused.told).toEqual([]);
  expect(paused.waiting.map(({ reason }) => reason)).toContain('waits for daily/dump, which is paused');
  await site.store.pauses.set({ name: 'daily/dump', kind: 'pause', until: now + HOUR, createdAt: now, by: null });
  // Of another tier nothing is told, though it is looked at.
  expect((await site.next(DAY, 'hourly')).told).toEqual(['03:10 hourly/report after']);
  expect((await site.next(DAY, 'daily')).waiting).toEqual([]);
});

test.each([
  ['that ends before its time', 10, ['08:20 hourly/report schedule']],
  ['that ends after its time', 6 * 60, ['09:00 hourly/report after']],
  ['whose duration nobody knows', null, ['08:20 hourly/report schedule']],
])('a script with a time of its own that waits for one %s comes at the later of both', async (_, minutes, told) => {
  const site = await makeSite({
    'daily/dump': [],
    'hourly/report': ['@schedule daily at 08:15', '@timezone UTC', '@after daily/dump'],
  });
  if (minutes !== null) await site.usually('daily/dump', minutes);
  await site.addRun('hourly/report', now - 5 * HOUR);
  site.change(`update jobs set scheduled_for = ? where name = 'hourly/report'`, now - 5 * HOUR);
  site.use('hourly/report', { 'daily/dump': now - 2 * DAY + 100 });
  const found = await site.next();
  expect(found.told).toEqual(told);
  expect(found.items.find(({ name }) => name === 'hourly/report')).toMatchObject({
    rule: 'daily at 08:15',
    dueMs: Date.parse('2026-11-04T08:15:00Z'),
  });
});

test('a success of the next day lets a script with a time of its own come at that time of the next day', async () => {
  const site = await makeSite({
    'daily/dump': [],
    'hourly/report': ['@schedule daily at 08:15', '@timezone UTC', '@after daily/dump'],
  });
  await site.usually('daily/dump', 10);
  await site.addRun('daily/dump', now - 11 * HOUR, { outcome: 'failed', exit_code: 1 });
  await site.queue('hourly/report', Date.parse('2026-11-03T08:15:00Z'));
  const { told, waiting } = await site.next(2 * DAY);
  expect({ told, waiting }).toEqual({
    told: ['08:20 hourly/report after', '08:20 hourly/report schedule'],
    waiting: [],
  });
});

test('a script that waits for its window comes with the first call in it', async () => {
  const site = await makeSite({ 'hourly/night': ['@between 22:00 and 05:00', '@timezone UTC'] });
  await site.queue('hourly/night', now - 45 * MINUTE);
  expect((await site.next()).told).toEqual(['22:20 hourly/night window']);
  const { told, waiting } = await site.next(HOUR);
  expect({ told, waiting }).toEqual({
    told: [],
    waiting: [
      {
        ...{ script: 'hourly/night', sinceMs: now - 45 * MINUTE, links: [] },
        reason: 'waits until 2026-11-03T22:00:00.000Z, as its @between 22:00 and 05:00 says',
      },
    ],
  });
});

test('a script with times of its own and a window is told the call that runs it, by all views', async () => {
  const site = await makeSite({
    'daily/night': ['@schedule daily at 12:00', '@between 22:00 and 05:00', '@timezone UTC'],
    'hourly/late': ['@schedule daily at 12:00', '@between 22:00 and 05:00', '@timezone UTC'],
    // No call comes into it.
    'hourly/never': ['@schedule daily at 12:15', '@between 22:30 and 23:00', '@timezone UTC'],
  });
  expect((await site.next(2 * DAY)).told).toEqual(['22:20 hourly/late window', '03:00 daily/night schedule']);
  const times = await readNextTimes(site.open(), (await site.open().jobs()).discovery.tiers);
  expect(times.map(({ script, passMs }) => `${script} ${passMs && timeOf(passMs)}`).toSorted()).toEqual([
    'daily/night 03:00',
    'hourly/late 22:20',
    'hourly/never null',
  ]);
});

test('of each pass it is said which of its scripts wait for a window, or are left out on some dates', async () => {
  const site = await makeSite({
    'hourly/a': [],
    'hourly/heavy': ['@between 22:00 and 05:00', '@except a.txt b.txt', '@after a'],
  });
  writeFiles(site.root, { 'a.txt': '12-25\n', 'b.txt': '12-26\n' });
  const { passes } = await site.next();
  expect(passes.find(({ tier }) => tier === 'hourly')?.linked).toEqual([
    {
      ...{ script: 'hourly/heavy', links: [{ kind: 'after', script: 'hourly/a' }] },
      ...{ between: '22:00 and 05:00', except: ['a.txt', 'b.txt'] },
    },
  ]);
  expect(passes.flatMap(namesInPass)).toEqual([
    'a',
    'heavy (after hourly/a; between 22:00 and 05:00; except a.txt and b.txt)',
  ]);
});

test('a script whose others have come, and which no pass has run yet, comes with the next call', async () => {
  const site = await makeSite({ 'hourly/dump': [], 'daily/x': ['@after hourly/dump'] });
  await site.addRun('hourly/dump', now - HOUR);
  await site.queue('daily/x', now - 45 * MINUTE);
  expect((await site.next()).told).toEqual(['14:20 daily/x after']);
});
