import { describe, expect, test } from 'vitest';
import type { ListOptions } from '../../../src/queue/api.ts';
import { listJobs, type SearchOptions, searchJobs } from '../../../src/queue/read/list.ts';
import { jobStates } from '../../../src/store/words.ts';
import { changeLog, readJobs } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START } from '../../support/queue.ts';
import { explainQueries, insertRows } from '../../support/store.ts';

/** Ten jobs in many states; each name tells which. */
async function fill() {
  const log = await openTestQueue();
  const { queue, take, root } = log;
  changeLog(root, `insert into jobs (name, tier, ready) values ('hourly/a', 'hourly', null)`);
  await queue.finish(await take('finished'), { result: 1 });
  await queue.fail(await take('failed'));
  await queue.retry(await take('retrying-delayed'), { delay: '1h' });
  await queue.retry(await take('retrying'));
  await take('running');
  await queue.cancel(await queue.add('cancelled'));
  await queue.add('ready/low', {}, { priority: 100 });
  await queue.add('ready/high', {}, { priority: 900 });
  await queue.add('delayed', {}, { runAt: '+2h', priority: 1000 });
  const parent = await take('paused');
  await queue.add('child', {}, { parent: parent.id });
  await queue.finish(parent);
  return { ...log, parent: parent.id };
}

const listed: readonly (readonly [options: ListOptions, names: string])[] = [
  [{}, 'child paused delayed ready/high ready/low cancelled running retrying retrying-delayed failed finished'],
  [{ limit: 2 }, 'child paused'],
  [{ before: 4 }, 'failed finished'],
  [{ pattern: 'ready/*' }, 'ready/high ready/low'],
  [{ pattern: 'READY/*' }, ''],
  [{ pattern: ['ready/l??', 'f*'] }, 'ready/low failed finished'],
  [{ pattern: ['running', 'finished'] }, 'running finished'],
  [{ state: 'queued' }, 'child delayed ready/high ready/low'],
  [{ state: 'retrying' }, 'retrying retrying-delayed'],
  [{ state: 'running' }, 'running'],
  [{ state: 'paused' }, 'paused'],
  [{ state: 'failed' }, 'failed'],
  [{ state: ['failed', 'cancelled', 'finished'] }, 'cancelled failed finished'],
  [{ state: ['failed', 'running'] }, 'running failed'],
  [{ due: 'ready' }, 'child ready/high ready/low retrying'],
  [{ due: 'delayed' }, 'delayed retrying-delayed'],
  [{ due: 'delayed', state: 'queued' }, 'delayed'],
  [{ due: 'ready', state: ['queued', 'failed'] }, 'child ready/high ready/low failed'],
  [{ order: 'next' }, 'delayed ready/high retrying child retrying-delayed ready/low'],
  [{ order: 'next', due: 'ready' }, 'ready/high retrying child ready/low'],
  [{ order: 'next', pattern: 'ready/low' }, 'ready/low'],
  [{ order: 'next', limit: 1, pattern: 'r*' }, 'ready/high'],
  [{ order: 'next', state: 'finished' }, 'finished'],
  [{ order: 'soonest' }, 'retrying ready/low ready/high child retrying-delayed delayed'],
  [{ order: 'soonest', due: 'delayed', limit: 1 }, 'retrying-delayed'],
  [{ order: 'oldest', limit: 3 }, 'finished failed retrying-delayed'],
  [{ order: 'oldest', after: 8, limit: 2 }, 'ready/high delayed'],
  [{ order: 'oldest', state: ['finished', 'cancelled'] }, 'finished cancelled'],
  [{ order: 'oldest', due: 'ready', before: 11 }, 'retrying ready/low ready/high'],
  [{ order: 'kick' }, 'failed'],
  [{ order: 'kick', pattern: ['re*', 'de*'] }, 'retrying-delayed delayed'],
  [{ order: 'kick', pattern: 'fin*' }, ''],
];

const refused = [
  { limit: 0 },
  { limit: 1001 },
  { limit: 1.5 },
  { state: 'ready' },
  { state: [] },
  { due: 'soon' },
  { order: 'eldest' },
  { order: 'kick', state: 'failed' },
  { order: 'kick', before: 7 },
  { since: 'long ago' },
  { until: 7 },
  { after: 0 },
  { pattern: '' },
  { pattern: [] },
  { before: 0 },
  { parent: -1 },
];

const plans: readonly (readonly [what: string, options: ListOptions, plan: RegExp])[] = [
  ['next, of all', { order: 'next' }, /SCAN jobs USING INDEX jobs_ready; .*SCAN jobs USING INDEX jobs_delayed/],
  [
    'next, of a pattern',
    { order: 'next', pattern: 'mail/*' },
    /SCAN jobs USING INDEX jobs_ready; .*SCAN jobs USING INDEX jobs_delayed/,
  ],
  ['next, of a name', { order: 'next', pattern: 'a' }, /USING INDEX jobs_ready_by_name \(name=\?\)/],
  ['soonest', { order: 'soonest' }, /SCAN jobs USING INDEX jobs_delayed/],
  ['newest', {}, /SCAN jobs$/],
  ['oldest', { order: 'oldest' }, /SCAN jobs$/],
  ['oldest from a number on', { order: 'oldest', after: 7 }, /PRIMARY KEY \(rowid>\?\)$/],
  [
    'few failed ones since',
    { state: 'failed', order: 'oldest', since: START },
    /USING INDEX jobs_ended \(state=\? AND/,
  ],
  ['few failed ones', { state: 'failed' }, /USING INDEX jobs_ended \(state=\? AND/],
  ['running ones', { state: 'running' }, /USING INDEX jobs_claimed/],
  ['few that wait', { state: 'retrying' }, /USING INDEX jobs_delayed/],
  ['children', { parent: 1 }, /USING INDEX jobs_by_parent/],
];

describe('list', () => {
  test('has the jobs that its options name, in their order', async () => {
    const { queue } = await fill();
    for (const [options, names] of listed) {
      const found = (await queue.list(options)).map(({ name }) => name).join(' ');
      expect.soft(found, JSON.stringify(options)).toBe(names);
    }
  });

  test('a window of time is that in which jobs were added, its end left out', async () => {
    const { queue, clock } = await openTestQueue();
    const add = async (name: string, at: number) => {
      clock.at = at;
      return await queue.add(name);
    };
    for (const [hour, name] of ['a', 'b', 'c', 'd'].entries()) await add(name, START + hour * HOUR_MS);
    await queue.bury(2);
    // The clock was set back: by their numbers, the oldest come first all the same.
    await add('e', START + HOUR_MS);
    const names = async (options: ListOptions) => (await queue.list(options)).map(({ name }) => name).join('');
    const window = { since: new Date(START + HOUR_MS), until: START + 3 * HOUR_MS };
    expect(await names(window)).toBe('ecb');
    expect(await names({ ...window, order: 'oldest' })).toBe('bce');
    expect(await names({ ...window, order: 'oldest', limit: 1, after: 3 })).toBe('e');
    expect(await names({ ...window, order: 'oldest', state: 'queued' })).toBe('ce');
    expect(await names({ ...window, state: 'failed' })).toBe('b');
    expect(await names({ until: START })).toBe('');
    expect(await names({ since: new Date(START + 3 * HOUR_MS) })).toBe('d');
  });

  test('in the order of a kick are those, in their order, that it kicks', async () => {
    const { queue, take, clock } = await openTestQueue();
    for (const name of ['a', 'b', 'c']) {
      const job = await take(name, { uniqueKey: name === 'b' ? 'k' : name });
      clock.at += 1;
      await queue.fail(job);
    }
    await queue.add('b', {}, { uniqueKey: 'k' });
    for (const runAt of ['+2h', '+1h'] as const) await queue.add('later', {}, { runAt });
    const listed: number[] = [];
    for (;;) {
      const [next] = await queue.list({ order: 'kick', limit: 1 });
      if (next === undefined) break;
      expect(await queue.kickMany('*', 1)).toBe(1);
      expect(await queue.get(next.id)).toMatchObject({ state: 'queued', counters: { kicks: 1 } });
      listed.push(next.id);
    }
    // Of the second one, another job has the unique key.
    expect(listed).toEqual([1, 3, 6, 5]);
  });

  test('children are found by their parent', async () => {
    const { queue, parent } = await fill();
    expect(await queue.list({ parent })).toMatchObject([{ name: 'child', parent }]);
  });

  test('each page begins where the one before ended', async () => {
    const { queue } = await fill();
    const all = await queue.list();
    const pages = [];
    for (let before: number | undefined; ; before = pages.at(-1)?.id) {
      const page = await queue.list({ limit: 3, ...(before !== undefined && { before }) });
      if (page.length === 0) break;
      pages.push(...page);
    }
    expect(pages).toEqual(all);
  });

  test('refuses wrong options', async () => {
    const { queue } = await openTestQueue();
    for (const options of refused) {
      const list = queue.list(options as ListOptions);
      await expect.soft(list, JSON.stringify(options)).rejects.toMatchObject({ code: 'invalid' });
    }
  });

  test('is the same whether there are few of a state or many', async () => {
    const { queue, root } = await openTestQueue();
    const names = Array.from({ length: 1_500 }, (_, index) => ({ name: `n/${index}` }));
    const ids = await queue.addMany(names);
    const newest = async (state: 'failed' | 'queued') => (await queue.list({ state, limit: 3 })).map(({ id }) => id);
    expect(await newest('queued')).toEqual(ids.slice(-3).reverse());
    for (const count of [900, 1_400]) {
      const some = ids.slice(0, count);
      const failed = `state = 'failed', finished_at = ${START}, ready = null`;
      changeLog(root, `update jobs set ${failed} where id <= ?`, some.at(-1));
      expect(await newest('failed')).toEqual(some.slice(-3).reverse());
      expect(await newest('queued')).toEqual(ids.slice(-3).reverse());
    }
  });

  test('finds jobs by their index', async () => {
    const { root } = await openTestQueue();
    for (const [what, options, plan] of plans) {
      const asked = await explainQueries(root, (store) => listJobs(store, options, START));
      const found = asked.findLast((each) => each.includes('jobs'));
      expect.soft(found, what).toMatch(plan);
      expect.soft(found, what).not.toMatch(/SCAN jobs;/);
    }
  });
});

describe('count', () => {
  test('tells how many of each name are in which state', async () => {
    const { queue } = await fill();
    const none = { ready: 0, delayed: 0, running: 0, retrying: 0, paused: 0, failed: 0 };
    const nothing = { ...none, finished: 0, cancelled: 0 };
    expect(await queue.count()).toEqual([
      { name: 'cancelled', ...nothing, cancelled: 1 },
      { name: 'child', ...nothing, ready: 1 },
      { name: 'delayed', ...nothing, delayed: 1 },
      { name: 'failed', ...nothing, failed: 1 },
      { name: 'finished', ...nothing, finished: 1 },
      { name: 'paused', ...nothing, paused: 1 },
      { name: 'ready/high', ...nothing, ready: 1 },
      { name: 'ready/low', ...nothing, ready: 1 },
      { name: 'retrying', ...nothing, retrying: 1 },
      { name: 'retrying-delayed', ...nothing, retrying: 1 },
      { name: 'running', ...nothing, running: 1 },
    ]);
    expect((await queue.count('ready/*')).map(({ name }) => name)).toEqual(['ready/high', 'ready/low']);
    expect(await queue.count(['running', 'x'])).toEqual([{ name: 'running', ...nothing, running: 1 }]);
    expect(await queue.count('x')).toEqual([]);
  });

  test('takes jobs with parameters for those of their handler', async () => {
    const { queue } = await fill();
    const parameters = Array.from({ length: 1_000 }, (_, index) => ({ name: `mail/welcome?user=${index}` }));
    await queue.addMany([...parameters, { name: 'mail/welcome' }]);
    expect(await queue.count('mail/*')).toMatchObject([{ name: 'mail/welcome', ready: 1_001 }]);
    expect(await queue.count('mail/welcome?user=7')).toMatchObject([{ name: 'mail/welcome', ready: 1 }]);
  });

  test('agrees with a count one by one', async () => {
    const { queue, root, clock } = await openTestQueue();
    scatter(root, 2_000);
    const rows = readJobs(root);
    const inState = (name: string, state: string) => rows.filter((row) => row.name === name && row.state === state);
    const counts = await queue.count();
    expect(counts.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd', 'e']);
    for (const { name, ready, delayed, ...others } of counts) {
      const isDue = ({ run_at }: { readonly run_at: number }) => run_at <= clock.at;
      expect(ready).toBe(inState(name, 'queued').filter(isDue).length);
      expect(delayed).toBe(inState(name, 'queued').length - ready);
      for (const [state, count] of Object.entries(others)) {
        // What is claimed runs in a moment.
        const states = state === 'running' ? ['running', 'claimed'] : [state];
        expect(count).toBe(states.flatMap((each) => inState(name, each)).length);
      }
    }
  });
});

/** Jobs of five names in every state, due and not. */
function scatter(root: string, count: number): void {
  const rows = Array.from({ length: count }, (_, i) => {
    const state = jobStates[(i * 7) % jobStates.length] ?? 'queued';
    const run_at = START + ((i % 11) - 5) * HOUR_MS;
    return {
      ...{ name: 'abcde'.charAt(i % 5), state, run_at },
      finished_at: ['failed', 'finished', 'cancelled'].includes(state) ? 1 : null,
      ready: ['queued', 'retrying'].includes(state) ? Number(run_at <= START) : null,
    };
  });
  insertRows((sql) => changeLog(root, sql), 'jobs', rows);
}

test('a job is told of with all that is known of it', async () => {
  const { queue, take, clock } = await openTestQueue();
  const options = { priority: 7, retries: 2, uniqueKey: 'k', group: 'g', repeat: 'HOURLY' };
  const job = await take('mail/a', { ...options, missed: 'skip', runAt: START - 5 }, { n: [1] });
  clock.at += 10;
  expect(await queue.get(job.id)).toEqual({
    id: job.id,
    name: 'mail/a',
    state: 'running',
    data: { n: [1] },
    result: null,
    priority: 7,
    runAt: new Date(START - 5),
    scheduledFor: new Date(START - 5),
    createdAt: new Date(START),
    startedAt: new Date(START),
    finishedAt: null,
    attempts: 1,
    maxAttempts: 3,
    repeat: 'HOURLY',
    missed: 'skip',
    uniqueKey: 'k',
    group: 'g',
    parent: null,
    leaseMs: null,
    leasedUntil: new Date(START + 60_000),
    reason: null,
    counters: { reserves: 1, timeouts: 0, releases: 0, buries: 0, kicks: 0, crashes: 0 },
  });
  await expect(queue.get(0)).rejects.toMatchObject({ code: 'invalid' });
});

test('a list leaves out what is longer than 4,096 bytes, and says how long it is; one job has all of it', async () => {
  const { queue, store, take, clock } = await openTestQueue();
  // With its quotes, and two bytes for each of these letters.
  const [whole, long] = ['ä'.repeat(2_047), `${'ä'.repeat(2_047)}x`];
  await queue.bury(await take('a', {}, whole));
  await queue.finish(await take('a', {}, long), { result: whole });
  await queue.finish(await take('a', {}, {}), { result: long });
  await queue.add('a', null);
  const told = [
    { id: 4, data: null, dataBytes: null, result: null, resultBytes: null },
    { id: 3, data: {}, dataBytes: null, result: null, resultBytes: 4_097 },
    { id: 2, data: null, dataBytes: 4_097, result: whole, resultBytes: null },
    { id: 1, data: whole, dataBytes: null, result: null, resultBytes: null },
  ];
  expect(await queue.list()).toMatchObject(told);
  expect(await queue.list({ order: 'kick' })).toMatchObject(told.slice(3));
  const found = await searchJobs(store, { text: 'ä', isLate: () => false }, clock.at);
  expect(found.jobs).toMatchObject(told.slice(1));
  expect(await queue.get(2)).toMatchObject({ data: long, result: whole });
  expect(await queue.get(3)).toMatchObject({ data: {}, result: long });
});

test('a list cuts a text that plain SQL has made too long', async () => {
  const { queue, root } = await openTestQueue();
  const id = await queue.add('a');
  changeLog(root, `update jobs set reason = '${'r'.repeat(20_000)}' where id = ${id}`);
  expect(await queue.list()).toMatchObject([{ reason: `${'r'.repeat(1_000)}…` }]);
});

describe('search', () => {
  const idsOf = ({ jobs }: { jobs: readonly { id: number }[] }) => jobs.map(({ id }) => id);

  async function fillSearched() {
    const { queue, store, clock, take } = await openTestQueue();
    await queue.add('mail', { to: 'Ada@example.org', share: '100%' });
    await queue.finish(await take('sms'), { result: 'told ada' });
    await queue.bury(await queue.add('export', { share: '100 of 1000' }), { reason: 'ADA was here' });
    await queue.add('mail', { to: 'bob@example.org' });
    await queue.add('mail', { to: 'Sören Σ İsik' });
    const search = (options: Omit<SearchOptions, 'isLate'>, isLate = () => false) =>
      searchJobs(store, { ...options, isLate }, clock.at);
    return { search };
  }

  test('finds a text in data, results and reasons, A to Z in either case', async () => {
    const { search } = await fillSearched();
    expect(idsOf(await search({ text: 'aDa' }))).toEqual([3, 2, 1]);
    expect(idsOf(await search({ text: 'aDa', pattern: '?m*', order: 'oldest' }))).toEqual([2]);
    expect(idsOf(await search({ text: 'ada', state: 'failed' }))).toEqual([3]);
    expect(idsOf(await search({ text: 'sören' }))).toEqual([5]);
    expect(idsOf(await search({ text: 'SöREN' }))).toEqual([5]);
    expect(idsOf(await search({ text: 'sÖren' }))).toEqual([]);
    expect(idsOf(await search({ text: 'İs' }))).toEqual([5]);
    expect(await search({ text: 'nobody' })).toEqual({ jobs: [], looked: 5, last: null });
  });

  test('signs of patterns are letters to it', async () => {
    const { search } = await fillSearched();
    expect(idsOf(await search({ text: '100%' }))).toEqual([1]);
    expect(idsOf(await search({ text: 'b_b' }))).toEqual([]);
    expect(idsOf(await search({ text: '!' }))).toEqual([]);
  });

  test('a search that was full goes on behind its last one', async () => {
    const { search } = await fillSearched();
    const first = await search({ text: 'ada', limit: 2 });
    expect({ ids: idsOf(first), last: first.last }).toEqual({ ids: [3, 2], last: 2 });
    expect(await search({ text: 'ada', before: 2 })).toMatchObject({ jobs: [{ id: 1 }], last: null });
  });

  test('a hostile text over large data takes no longer than a harmless one, and the clock is asked in between', async () => {
    const { queue, store, clock } = await openTestQueue();
    const data = 'a'.repeat(1_000_000);
    for (let count = 0; count < 6; count += 1) await queue.add('a', data);
    let asked = 0;
    const isLate = () => {
      asked += 1;
      return false;
    };
    const search = async (text: string) => {
      const before = process.cpuUsage().user;
      expect(await searchJobs(store, { text, isLate }, clock.at)).toEqual({ jobs: [], looked: 6, last: null });
      return process.cpuUsage().user - before;
    };
    // Of other letters than A to Z, so that each byte is looked at.
    const harmless = await search('xyö');
    // By `like` each takes 200 times as long, and the clock is asked once.
    for (const text of [`${'a'.repeat(199)}b`, `b${'a'.repeat(199)}`, 'ab'.repeat(100)]) {
      expect(await search(text)).toBeLessThan(20 * harmless);
    }
    expect(asked).toBeGreaterThanOrEqual(4 * 5);
    const late = await searchJobs(store, { text: 'b', isLate: () => true }, clock.at);
    expect(late).toEqual({ jobs: [], looked: 1, last: 6 });
    const found = await searchJobs(store, { text: 'aaa', isLate: () => false, limit: 1000 }, clock.at);
    expect(found).toMatchObject({ looked: 6, last: null });
    expect(idsOf(found)).toHaveLength(6);
  });

  test('a list of many thousands is searched to its end, whichever order it is in', async () => {
    const { queue, store, clock } = await openTestQueue();
    const jobs = Array.from({ length: 4_100 }, (_, index) => ({ name: 'a', data: `x${index % 2_050}y` }));
    for (const part of [jobs.slice(0, 2_100), jobs.slice(2_100)]) await queue.addMany(part);
    const search = async (order: 'newest' | 'oldest', text: string, more = {}) =>
      await searchJobs(store, { text, order, isLate: () => false, ...more }, clock.at);
    const found = await search('newest', 'X7Y');
    expect(found).toMatchObject({ looked: 4_100, last: null });
    expect(idsOf(found)).toEqual([2_058, 8]);
    expect(idsOf(await search('oldest', 'x7y'))).toEqual([8, 2_058]);
    expect(await search('oldest', 'x7y', { limit: 1 })).toMatchObject({ looked: 8, last: 8 });
    expect(idsOf(await search('oldest', 'x7y', { limit: 1, after: 8 }))).toEqual([2_058]);
  });

  test('a search that takes long says where it stopped, and goes on from there', async () => {
    const { queue, store, clock } = await openTestQueue();
    await queue.addMany(Array.from({ length: 250 }, (_, index) => ({ name: 'a', data: index })));
    const late = await searchJobs(store, { text: '7', isLate: () => true, limit: 1000 }, clock.at);
    expect(late).toMatchObject({ looked: 200, last: 51 });
    const rest = await searchJobs(store, { text: '7', isLate: () => true, limit: 1000, before: 51 }, clock.at);
    expect(rest).toMatchObject({ looked: 50, last: null });
    const sevens = Array.from({ length: 250 }, (_, index) => `${index}`).filter((text) => text.includes('7'));
    expect(late.jobs.length + rest.jobs.length).toBe(sevens.length);
  });
});
