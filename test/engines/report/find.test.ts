import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { findActivity } from '../../../src/report/model/activity.ts';
import { readFailures } from '../../../src/report/model/runs/failures.ts';
import { countMatchingRuns, selectRunPage } from '../../../src/report/model/runs/run-pages.ts';
import { findAnything } from '../../../src/report/model/search.ts';
import { findScripts } from '../../../src/report/names.ts';
import { createClock } from '../../../src/report/text/clock.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { insertRows } from '../../support/store.ts';
import { siteOf, writeLog } from '../../support/written-log.ts';

const HOUR = 3_600_000;
const now = Date.parse('2026-11-03T14:05:00Z');
const never = () => false;

/** Three scripts, of which two fail: one each time with another value in its error. */
async function makeSite() {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const failed = (message: string) => ({ outcome: 'failed' as const, error_name: 'Error', error_message: message });
  await log.addRun('hourly/clean', now - 9 * HOUR);
  for (const hours of [8, 7, 6]) {
    await log.addRun('queue/mail/welcome', now - hours * HOUR, failed(`nowhere${hours}x is no address`));
  }
  await log.addRun('hourly/import', now - 5 * HOUR, failed('50% of orders.csv has_no column !'));
  await log.addRun('queue/mail/welcome', now - 4 * HOUR);
  const site = { ...siteOf(log), root, store: log.store, nowMs: now };
  return { root, log, site };
}

test('runs are found by patterns of names, by texts of errors in any case, and by their numbers', async () => {
  const { log, site } = await makeSite();
  const scripts = async (word: string) => [...(await findScripts(site, word))].sort();
  expect(await scripts('hourly/*')).toEqual(['hourly/clean', 'hourly/import']);
  expect(await scripts('mail/*')).toEqual(['queue/mail/welcome']);
  expect(await scripts('import')).toEqual(['hourly/import']);
  expect(await scripts('nothing*')).toEqual([]);
  const found = async (filter: object) => {
    const runs = await selectRunPage(log, { ...filter, limit: 10 });
    expect(await countMatchingRuns(log, filter), JSON.stringify(filter)).toBe(runs.length);
    return runs.map(({ id }) => id);
  };
  expect(await found({ scripts: await scripts('hourly/*') })).toEqual([5, 1]);
  expect(await found({ scripts: [] })).toEqual([]);
  expect(await found({ search: 'NO ADDRESS' })).toEqual([4, 3, 2]);
  expect(await found({ search: 'Clean' })).toEqual([1]);
  expect(await found({ search: '3' })).toEqual([3]);
  expect(await found({ search: '50%' })).toEqual([5]);
  expect(await found({ search: 'has_no column !' })).toEqual([5]);
  expect(await found({ search: 'has%column' })).toEqual([]);
  expect(await found({ search: 'address', sinceMs: now - 7 * HOUR, untilMs: now - 6 * HOUR })).toEqual([3]);
});

test('failures with one cause are one, however many there are, and hide no other', async () => {
  const { log } = await makeSite();
  const { items, isCut } = await readFailures(
    log,
    { sinceMs: now - 24 * HOUR, untilMs: now, limit: 10 },
    createClock(now),
  );
  expect(items).toMatchObject([
    { id: 5, script: 'hourly/import', times: 1 },
    { id: 4, script: 'queue/mail/welcome', times: 3, firstAtMs: now - 8 * HOUR },
  ]);
  expect(isCut).toBe(false);
});

test('a text finds scripts, runs and jobs: by name, number, pattern, error or data', async () => {
  const { root, site } = await makeSite();
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  await queue.add('mail/welcome', { to: 'customer4711@example.org' });
  await queue.add('export', {});
  const find = async (text: string) => {
    const { scripts, runs, jobs, more } = await findAnything(site, text, 3, never);
    return [scripts, runs.map(({ id }) => id), jobs.map(({ id, name }) => `${id > 0} ${name}`), more];
  };
  const all = { scripts: false, runs: false, jobs: false };
  expect(await find('4711')).toEqual([[], [], ['true mail/welcome'], all]);
  expect(await find('welcome')).toEqual([
    ['queue/mail/welcome'],
    [6, 4, 3],
    Array.from({ length: 3 }, () => 'true mail/welcome'),
    { ...all, runs: true, jobs: true },
  ]);
  expect(await find('hourly/*')).toEqual([['hourly/clean', 'hourly/import'], [5, 1], [], all]);
  expect(await find('no address')).toEqual([[], [4, 3, 2], [], all]);
  const [last] = await queue.list({ limit: 1 });
  expect(await find(String(last?.id))).toMatchObject([[], expect.anything(), ['true export'], all]);
  expect(await find('nobody is called so')).toEqual([[], [], [], all]);
});

test('more jobs may be found only where the search of their data stopped early', async () => {
  const { root, site } = await makeSite();
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  const moreOf = async (text: string) => (await findAnything(site, text, 3, () => true)).more.jobs;
  expect(await moreOf('nobody is called so')).toBe(false);
  await queue.add('mail/welcome', {});
  expect(await moreOf('nobody is called so')).toBe(false);
  await queue.addMany(Array.from({ length: 300 }, () => ({ name: 'export' })));
  expect(await moreOf('nobody is called so')).toBe(true);
  expect(await moreOf('nobody*')).toBe(false);
});

test('activity is found by kind, subject, person and text, and a search goes on where it stopped', async () => {
  const { log } = await makeSite();
  insertRows(log.change, 'events', [
    { at: now - 2 * HOUR, event: 'paused', detail: 'hourly', actor: 'token laptop' },
    { at: now - HOUR, event: 'resumed', detail: 'hourly', actor: 'user ada' },
  ]);
  const find = async (filter: object) => {
    const { items } = await findActivity(log, { order: 'newest', limit: 50, ...filter }, never);
    return items.map(({ event, name, detail }) => `${event} ${name ?? detail}`);
  };
  expect(await find({ by: '*' })).toEqual(['resumed hourly', 'paused hourly']);
  expect(await find({ by: 'token *' })).toEqual(['paused hourly']);
  expect(await find({ events: ['resumed', 'run-started'], subject: 'hour*' })).toEqual([
    'resumed hourly',
    'run-started hourly/import',
    'run-started hourly/clean',
  ]);
  expect(await find({ events: ['job-failed'], subject: '*import' })).toHaveLength(1);
  expect(await find({ search: 'LAPTOP' })).toEqual(['paused hourly']);
  expect(await find({ search: 'nothing of it' })).toEqual([]);
  const first = await findActivity(log, { order: 'newest', limit: 1, by: '*' }, never);
  const next = await findActivity(log, { order: 'newest', limit: 1, by: '*', after: first.last ?? undefined }, never);
  expect(next.items).toMatchObject([{ event: 'paused' }]);
});
