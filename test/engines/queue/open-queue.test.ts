import { getEventListeners } from 'node:events';
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as setTurn } from 'node:timers/promises';
import { openQueue, QueueError } from 'folder-runner';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startNode } from '../../support/command.ts';
import { queryLog, testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

async function open(root: string, options: Parameters<typeof openQueue>[0] = {}) {
  const queue = await openQueue({ root, ...options });
  onTestFinished(() => queue.close());
  return queue;
}

describe('openQueue', () => {
  // Its log is a file.
  testOfSqlite('makes the state folder and the log, for nobody else to read', async () => {
    const root = makeTemporaryRoot();
    await open(root);
    expect(existsSync(join(root, '.runner/activity.db'))).toBe(true);
    expect(statSync(join(root, '.runner')).mode & 0o777).toBe(0o700);
  });

  // On a server, one database is that of all roots.
  testOfSqlite('finds the root by its option, by RUNNER_ROOT, or upward', async () => {
    const [one, two, three] = [makeTemporaryRoot(), makeTemporaryRoot(), makeTemporaryRoot()];
    mkdirSync(join(three, 'src/deep'), { recursive: true });
    const ways = [
      { root: one, env: { RUNNER_ROOT: two }, cwd: three },
      { env: { RUNNER_ROOT: two }, cwd: three },
      { env: {}, cwd: join(three, 'src/deep') },
    ];
    for (const [index, way] of ways.entries()) {
      const queue = await openQueue(way);
      onTestFinished(() => queue.close());
      await queue.add(`way-${index}`);
    }
    const names = [one, two, three].map((root) => queryLog(root, 'select name from jobs'));
    expect(names).toEqual([[{ name: 'way-0' }], [{ name: 'way-1' }], [{ name: 'way-2' }]]);
  });

  test.each([
    ['no root', () => ({ cwd: '/', env: {} }), /^No jobs folder in \/ or above it\. Create one/],
    ['an empty root', () => ({ root: '' }), /^root is empty/],
    ['a wrong root', () => ({ root: '/nope' }), /^root names \/nope, which has no jobs folder/],
    [
      'wrong settings',
      () => ({ root: makeTemporaryRoot({ 'runner.config.json': '{"queue": {"lease": 7}}' }) }),
      /queue\.lease must be/,
    ],
  ])('rejects %s as wrong use, in a sentence', async (_, options, message) => {
    const error = await openQueue(options()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(QueueError);
    expect(error).toMatchObject({ code: 'invalid', message: expect.stringMatching(message) });
  });

  test('says that Node is too old, which could not even load it', async () => {
    const { versions } = process;
    onTestFinished(() => void Object.defineProperty(process, 'versions', { value: versions }));
    for (const node of ['20.20.2', '22.17.9']) {
      Object.defineProperty(process, 'versions', { value: { ...versions, node } });
      const message = `openQueue needs Node 22.18 or newer, and this is ${node} (${process.execPath}).`;
      await expect(openQueue({ root: makeTemporaryRoot() })).rejects.toMatchObject({ code: 'invalid', message });
    }
  });

  test("says that Yarn's PnP is not supported, and how to do without", async () => {
    const { versions } = process;
    onTestFinished(() => void Object.defineProperty(process, 'versions', { value: versions }));
    Object.defineProperty(process, 'versions', { value: { ...versions, pnp: '3' } });
    const message =
      "openQueue: Yarn's Plug'n'Play (PnP) is not supported: write `nodeLinker: node-modules` into .yarnrc.yml and " +
      'run `yarn install`.';
    await expect(openQueue({ root: makeTemporaryRoot() })).rejects.toMatchObject({ code: 'invalid', message });
  });

  // What keeps a file from being opened; of servers `test/unit/store/server.test.ts` tells.
  testOfSqlite('tells of a log that cannot be opened', async () => {
    const root = makeTemporaryRoot({ '.runner/activity.db': 'x'.repeat(100) });
    writeFileSync(join(root, '.runner/activity.db'), '');
    const other = makeTemporaryRoot({ '.runner': 'a file' });
    await expect(openQueue({ root: other })).rejects.toMatchObject({
      name: 'StoreUnavailable',
      message: expect.stringContaining('.runner/activity.db'),
    });
  });
});

describe('a queue', () => {
  test('serves many calls at the same time, each by itself', async () => {
    const queue = await open(makeTemporaryRoot());
    const ids = await Promise.all(Array.from({ length: 60 }, (_, n) => queue.add(`n/${n % 3}`, { n })));
    expect(new Set(ids).size).toBe(60);
    const claims = await Promise.all(Array.from({ length: 70 }, () => queue.claim()));
    const claimed = claims.filter((job) => job !== null);
    expect(new Set(claimed.map(({ id }) => id))).toEqual(new Set(ids));
    await Promise.all(claimed.map((job) => queue.finish(job, { result: job.data })));
    expect(await queue.count()).toMatchObject([0, 1, 2].map(() => ({ finished: 20 })));
  });

  test('that is closed refuses everything, and ends who waits', async () => {
    const queue = await open(makeTemporaryRoot());
    const waiting = queue.claim('*', { wait: '1m' });
    await setTurn();
    const added = queue.add('a');
    await queue.close();
    await queue.close();
    expect(await waiting).toBeNull();
    expect(await added).toBe(1);
    const refusal = { code: 'invalid', message: 'This queue was closed; open it again.' };
    await expect(queue.add('a')).rejects.toMatchObject(refusal);
    await expect(queue.claim('*', { wait: '1m' })).rejects.toMatchObject(refusal);
    await expect(queue.claimMany('*', 2)).rejects.toMatchObject(refusal);
  });
});

/** Signals that Node keeps beside one for `AbortSignal.any`. */
function countDependants(signal: AbortSignal): number {
  const key = Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals');
  const kept = key && (signal as unknown as Record<symbol, { readonly size: number }>)[key];
  return kept?.size ?? 0;
}

describe('a claim that waits', () => {
  const start = () => performance.now();
  const since = (before: number) => performance.now() - before;

  test('gets what the same queue adds', async () => {
    const queue = await open(makeTemporaryRoot());
    const waiting = queue.claim('mail/*', { wait: '30s' });
    await queue.add('other');
    const id = await queue.add('mail/a');
    expect(await waiting).toMatchObject({ id });
  });

  test('gets what another process adds, each waiter its own job', async () => {
    const root = makeTemporaryRoot();
    const queue = await open(root);
    const waiting = Promise.all([1, 2, 3].map(() => queue.claim('mail/*', { wait: '30s' })));
    const child = startNode([new URL('add-mails.child.ts', import.meta.url).pathname, root, '3']);
    const jobs = await waiting;
    expect(new Set(jobs.map((job) => job?.id)).size).toBe(3);
    expect(await child.ended).toMatchObject({ status: 0 });
  });

  test('wakes when a job becomes due, and when a pause is over', async () => {
    const queue = await open(makeTemporaryRoot());
    await queue.add('later', {}, { runAt: '+300ms' });
    await queue.add('paused');
    await queue.pause('paused', { for: '600ms' });
    expect(await queue.claim('*', { wait: '20s' })).toMatchObject({ name: 'later' });
    expect(await queue.claim('*', { wait: '20s' })).toMatchObject({ name: 'paused' });
  });

  test('leaves nothing at the signal of its caller, which may outlive many waits', async () => {
    const queue = await open(makeTemporaryRoot());
    const { signal } = new AbortController();
    for (let wait = 0; wait < 20; wait += 1) await queue.claim('*', { wait: '1ms', signal });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(countDependants(signal)).toBe(0);
    AbortSignal.any([signal]).addEventListener('abort', () => {});
    expect(countDependants(signal)).toBe(1);
  });

  test('wakes when a lease has run out', async () => {
    const queue = await open(makeTemporaryRoot());
    const id = await queue.add('a');
    const lost = await queue.claim('*', { lease: '100ms' });
    const again = await queue.claim('*', { wait: '20s' });
    expect(again).toMatchObject({ id, counters: { timeouts: 1, reserves: 2 } });
    await expect(queue.finish(lost ?? 0)).rejects.toMatchObject({ code: 'stale-claim' });
  });

  test('gives up at its end, or when it is told to', async () => {
    const queue = await open(makeTemporaryRoot());
    const before = start();
    expect(await queue.claim('*', { wait: '200ms' })).toBeNull();
    expect(since(before)).toBeGreaterThanOrEqual(190);
    const stop = new AbortController();
    const waiting = queue.claimMany('*', 3, { wait: '1h', signal: stop.signal });
    stop.abort();
    expect(await waiting).toEqual([]);
    expect(await queue.claim('*', { wait: '1h', signal: AbortSignal.abort() })).toBeNull();
  });

  test('takes several that are there, without waiting for more', async () => {
    const queue = await open(makeTemporaryRoot());
    await queue.addMany([{ name: 'a' }, { name: 'a' }]);
    const before = start();
    expect(await queue.claimMany('a', 5, { wait: '30s' })).toHaveLength(2);
    expect(since(before)).toBeLessThan(20_000);
  });

  test('that is aborted after it took a job still gives it', async () => {
    const queue = await open(makeTemporaryRoot());
    await queue.add('a');
    expect(await queue.claim('a', { signal: AbortSignal.abort() })).toMatchObject({ name: 'a' });
    await until('it runs', async () => (await queue.get(1))?.state === 'running');
  });

  test.each([
    [['*', 0, {}]],
    [['*', 1001, {}]],
    [['*', 1.5, {}]],
    [['', 1, {}]],
    [[[], 1, {}]],
    [['*', 1, { wait: 'long' }]],
    [['*', 1, { lease: 'long' }]],
  ] as const)('%j is refused', async ([patterns, count, options]) => {
    const queue = await open(makeTemporaryRoot());
    const claimed = queue.claimMany(patterns as string, count, options);
    await expect(claimed).rejects.toMatchObject({ code: 'invalid' });
  });
});
