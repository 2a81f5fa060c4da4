import { expect, test } from 'vitest';
import { type ActivityQuery, selectActivity } from '../../../src/report/model/activity.ts';
import type { Store } from '../../../src/store/store.ts';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';
import { changeLog, readActivity } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START } from '../../support/queue.ts';
import { explainQueries, makeStateOf } from '../../support/store.ts';

interface Entry {
  readonly event: string;
  readonly name: string | null;
  readonly host: string | null;
}

const told = (entries: readonly Entry[]) =>
  entries.map(({ event, name }) => (name === null ? event : `${event} ${name}`));

/** Worker 1 is a pass of a tier, worker 2 runs jobs 2 and 3, which are of the queue. */
async function makeSite() {
  const root = makeQueueSite();
  const calls = [['hourly'], ['add', 'export'], ['add', 'mail/welcome', '--priority', '7'], ['work']];
  for (const args of calls)
    expect(await inRoot(root, ...args), args.join(' ')).toMatchObject({ status: 0, stderr: '' });
  const activity = async (...args: string[]): Promise<Entry[]> =>
    jsonOf(await inRoot(root, 'activity', ...args, '--json')).activity;
  return { root, activity };
}

const ofPass = ['worker-started', 'run-started hourly/clean', 'job-finished hourly/clean', 'worker-finished'];
const ofExport = ['run-started export', 'job-finished export'];
const ofMail = ['run-started mail/welcome', 'job-finished mail/welcome'];
const ofWorker = ['worker-started', ...ofExport, ...ofMail, 'worker-finished'];
const all = [...ofPass, 'job-queued export', 'job-queued mail/welcome', ...ofWorker];

test('what happened to all jobs and workers is told in its order, from either end', async () => {
  const { activity } = await makeSite();
  const oldest = await activity('--order', 'oldest');
  expect(told(oldest)).toEqual(all);
  const keys = ['at', 'event', 'detail', 'warning', 'run', 'by', 'job', 'name', 'worker', 'host'];
  expect(Object.keys(oldest[0] as Entry)).toEqual(keys);
  expect(oldest[1]).toMatchObject({ detail: null, run: 1, job: 1, worker: 1 });
  expect(await activity()).toEqual(oldest.toReversed());
  expect(told(await activity('--limit', '3', '--order', 'oldest'))).toEqual(all.slice(0, 3));
  expect(told(await activity('--limit', '1'))).toEqual(all.slice(-1));
  expect(await activity('--since', '1h', '--order', 'oldest')).toEqual(oldest);
  expect(await activity('--until', '1h')).toEqual([]);
});

test('the machines of workers stand in a column of their own, if there are several', async () => {
  const { root, activity } = await makeSite();
  const text = async () => (await inRoot(root, 'activity', '--order', 'oldest')).stdout;
  expect(await text()).not.toContain('machine');
  changeLog(root, `insert into hosts (id, host, runner_version, node_version) values (7, 'web-2', '1', '24')`);
  changeLog(root, 'update workers set host_id = 7 where id = 2');
  expect(await text()).toMatch(/^when +worker +machine +job .*\n(.*\n)*.* 2 +web-2 +2 +export +2 +started/);
  const hosts = (await activity('--order', 'oldest')).map(({ event, host }) => `${event} ${host}`);
  expect(hosts.filter((each) => /queued null|web-2/.test(each))).toHaveLength(2 + ofWorker.length);
});

test('who did it stands in a column of its own, if somebody did', async () => {
  const { root, activity } = await makeSite();
  await inRoot(root, 'job', '3', 'kick');
  changeLog(
    root,
    `insert into events (at, event, detail, actor) values (${Date.now()}, 'paused', '*', 'token \x1b[2J')`,
  );
  const [last] = await activity('--limit', '1');
  expect(last).toMatchObject({ event: 'paused', by: 'token \u001b[2J' });
  const { stdout } = await inRoot(root, 'activity', '--limit', '1');
  expect(stdout).toMatch(/what +by +why\n/);
  expect(stdout).toMatch(/paused +token +\*\n/);
});

test('one worker, or one job, can be asked for', async () => {
  const { activity } = await makeSite();
  const oldest = (...args: string[]) => activity('--order', 'oldest', ...args).then(told);
  expect(await oldest('--worker', '1')).toEqual(ofPass);
  expect(await oldest('--worker', '2')).toEqual(ofWorker);
  expect(await oldest('--worker', '3')).toEqual([]);
  expect(await oldest('--job', '2')).toEqual(['job-queued export', ...ofExport]);
  expect(await oldest('--job', '3', '--worker', '2')).toEqual(ofMail);
});

test('it is shown as a table, with what was left out', async () => {
  const { root } = await makeSite();
  await inRoot(root, 'job', '3', 'kick');
  await inRoot(root, 'add', 'export');
  await inRoot(root, 'job', '4', 'bury', '--reason', 'later\u001b[2J');
  const { status, stdout, stderr } = await inRoot(root, 'activity', '--limit', '2');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, '#'.padEnd(19))).toBe(
    [
      'when                 worker  job  name    run  what    why',
      '#                              4  export       buried  later',
      '#                              4  export       queued',
      '',
      'the first 2 entries; --limit shows more · times in UTC\n',
    ].join('\n'),
  );
  expect((await inRoot(root, 'activity', '--job', '99')).stdout).toBe('Nothing of that kind is in the log.\n');
});

test.each([
  [['--worker', 'x'], '--worker must be a whole number from 1'],
  [['--order', 'next'], '--order must be one of '],
  [['--since', 'someday'], '--since must be a duration back from now'],
  [['--limit', '0'], '--limit must be a whole number from 1'],
])('%j is wrong use', async (args, message) => {
  const { status, stdout, stderr } = await inRoot(makeQueueSite(), 'activity', ...args);
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toContain(message);
});

test('the newest are the newest, however the clock was set, and whatever ended last', async () => {
  const { queue, root, store, clock } = await openTestQueue();
  const state = makeStateOf(root);
  const instants = async (query: ActivityQuery) =>
    (await selectActivity({ db: await store.queries(), state }, query)).map(({ atMs }) => atMs);
  const open: Awaited<ReturnType<typeof queue.claim>>[] = [];
  for (let index = 0; index < 60; index += 1) {
    // Twice it is set back; each third job ends only after many others.
    clock.at = START + index * HOUR_MS - (index > 20 ? 30 * HOUR_MS : 0) - (index > 40 ? 7 * HOUR_MS : 0);
    await queue.add('a', {}, { runAt: new Date(0) });
    const job = await queue.claim('a', { lease: '1000d' });
    if (index % 3 === 0) open.push(job);
    else await queue.finish(job ?? 0);
    if (index % 7 === 6) await queue.fail(open.shift() ?? 0);
  }
  const sorted = readActivity(root)
    .map(({ at }) => at)
    .toSorted((one, other) => other - one);
  for (const limit of [1, 2, 10, 50, 1_000]) {
    expect(await instants({ order: 'newest', limit })).toEqual(sorted.slice(0, limit));
    expect(await instants({ order: 'oldest', limit })).toEqual(sorted.slice(-limit).toReversed());
  }
});

test('one job is found by its indexes; of all, no more is sorted than is shown', async () => {
  const { queue, root } = await openTestQueue();
  await queue.addMany(Array.from({ length: 100 }, () => ({ name: 'a' })));
  changeLog(root, `insert into events (at, event) select ?, 'paused' from jobs`, START);
  const state = makeStateOf(root);
  const plansOf = async (query: ActivityQuery) => {
    const ask = async (store: Store) => selectActivity({ db: await store.queries(), state }, query);
    return (await explainQueries(root, ask)).filter((plan) => plan !== 'SCAN CONSTANT ROW');
  };
  // What is scanned is made of names, or is empty: no table of which there may be a million rows.
  const scanned = (plans: readonly string[]) =>
    plans.flatMap((plan) => plan.match(/SCAN (?!\(|names|tiers|scripts|ended)\w+/g) ?? []);
  expect(scanned(await plansOf({ jobId: 7, order: 'newest', limit: 50 }))).toEqual([]);
  expect(scanned(await plansOf({ workerId: 1, order: 'newest', limit: 50 }))).toEqual([]);
  const newest = await plansOf({ order: 'newest', limit: 50 });
  expect(scanned(newest)).toEqual([]);
  const plans = newest.join('\n');
  expect(plans).toMatch(/SEARCH runs USING INDEX runs_by_script/);
  expect(plans).toMatch(/SEARCH runs USING INDEX runs_long/);
  expect(plans).toMatch(/SEARCH jobs USING (COVERING )?INDEX jobs_added/);
  expect(plans).toMatch(/SEARCH workers USING INDEX workers_by_tier/);
  expect(plans).toMatch(/SEARCH events USING INDEX events_by_time/);
});
