import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openQueue } from 'folder-runner';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openHandlers } from '../../../src/discovery/handlers.ts';
import { endNotStarted } from '../../../src/execution/result/result.ts';
import type { BegunEnd, ShortRuns } from '../../../src/execution/warm/run.ts';
import type { JobOptions } from '../../../src/queue/api.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { createActiveExecutors, type Equipment } from '../../../src/worker/loop/executors.ts';
import { QueueExecutor } from '../../../src/worker/loop/queue-executor.ts';
import type { HandlerRun } from '../../../src/worker/loop/queue-recorder.ts';
import { createRunStop, type HandlerEquipment, runHandler } from '../../../src/worker/loop/run-handlers.ts';
import { commandPath, cronEnv, startCommand } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall } from '../../support/run.ts';
import { until } from '../../support/until.ts';

/** A root with handlers; what they write down; a worker, and a queue to add by. */
async function open(handlers: Readonly<Record<string, FileContent>>, settings: object = {}) {
  const files = Object.entries(handlers).map(([name, file]) => [`jobs/queue/${name}`, file]);
  const root = makeTemporaryRoot({
    ...Object.fromEntries(files),
    'runner.config.json': JSON.stringify(settings),
    diary: '',
  });
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  const add = (name: string, options: JobOptions = {}) => queue.add(name, { root }, options);
  const start = (...args: readonly string[]) =>
    startCommand(['--root', root, ...args], { cwd: '/', env: cronEnv(root) });
  return {
    ...{ root, queue, add, start },
    work: (...args: readonly string[]) => start('work', ...args),
    diary: () => readFileSync(join(root, 'diary'), 'utf8').split('\n').slice(0, -1),
    count: (state: string) => queryLog(root, 'select 1 from jobs where state = ?', state).length,
  };
}

/** Writes down when it begins and when it ends, which is once that holds. */
const endsWhen = (condition: string) => `
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export default async ({ id, data }) => {
  const diary = data.root + '/diary';
  const say = (what) => appendFileSync(diary, what + ' ' + id + '\\n');
  const countBegun = () => readFileSync(diary, 'utf8').split('begins').length - 1;
  say('begins');
  for (let look = 0; look < 1_000 && !(${condition}); look += 1) await sleep(10);
  say('ends');
};
`;
const quick = endsWhen('true');

/** Adds children by the command, as whoever has no other way. */
const parent = `
import { execFileSync } from 'node:child_process';
export default ({ id, data, children }) => {
  if (children.finished.length > 0) return;
  for (const n of [1, 2]) {
    const job = ['add', 'slow', JSON.stringify(data), '--parent', String(id)];
    execFileSync(process.execPath, [${JSON.stringify(commandPath)}, '--root', data.root, ...job]);
  }
};
`;

const both = (what: string): readonly string[] => [`${what} 2`, `${what} 3`];

test('children that a worker itself has released are worked off side by side', async () => {
  const { root, add, work, diary, count } = await open({
    'parent.mjs': parent,
    'slow.mjs': endsWhen('countBegun() === 2'),
  });
  await add('parent');
  const worker = work('--concurrency', '2', '--for', '20s', '--max-jobs', '4');
  const { status, stderr } = await worker.ended;
  expect({ status, stderr, finished: count('finished') }).toEqual({ status: 0, stderr: '', finished: 3 });
  expect(diary().slice(0, 2).toSorted()).toEqual(both('begins'));
  expect(diary().slice(2).toSorted()).toEqual(both('ends'));
  checkInvariants(root);
});

test('--max-jobs counts what was taken, however many executors ask', async () => {
  const { root, add, work, count } = await open({ 'slow.mjs': quick });
  const worker = work('--concurrency', '3', '--for', '30s', '--max-jobs', '2');
  await until('it is at work', () => queryLog(root, 'select 1 from workers').length > 0);
  for (let job = 0; job < 3; job += 1) await add('slow');
  expect(await worker.ended).toMatchObject({ status: 0, stderr: '' });
  expect([count('finished'), count('queued')]).toEqual([2, 1]);
  const reasons = queryLog(root, 'select reason from workers');
  expect(reasons).toEqual([{ reason: 'it has run 2 jobs' }]);
  checkInvariants(root);
});

test('an adaptive worker ends when nothing is due, with all its executors', async () => {
  const { root, add, work, count } = await open({ 'slow.mjs': quick });
  await add('slow');
  const { status, stderr } = await work('--adaptive', '--concurrency', '4').ended;
  expect({ status, stderr, finished: count('finished') }).toEqual({ status: 0, stderr: '', finished: 1 });
  checkInvariants(root);
});

test('an executor takes what is retried while the other ones have long jobs', async () => {
  const { root, add, work, count } = await open({
    'once.mjs': 'export default ({ attempt }) => { if (attempt === 1) throw new Error("no"); };\n',
    'slow.mjs': endsWhen("existsSync(data.root + '/go')"),
  });
  await add('once', { retries: 1, retryDelay: '300ms', priority: 900 });
  await add('slow');
  const worker = work('--concurrency', '2', '--for', '20s', '--wait', '1s');
  await until('it was tried again', () => count('finished') === 1);
  expect(count('running')).toBe(1);
  writeFileSync(join(root, 'go'), '');
  // One of its runs has failed.
  expect((await worker.ended).status).toBe(1);
  expect(count('finished')).toBe(2);
  checkInvariants(root);
});

test('a pause that ends by itself is no reason to wait for something else', async () => {
  const { add, queue, work, count } = await open({ 'slow.mjs': quick });
  await add('slow');
  await queue.pause('slow', { for: '1500ms' });
  const worker = work('--for', '30s', '--max-jobs', '1');
  expect((await worker.ended).status).toBe(0);
  expect(count('finished')).toBe(1);
});

test('a job that is due waits for its handler, and is taken soon after that has appeared', async () => {
  const { root, add, work, count } = await open({ 'slow.mjs': quick });
  await add('late');
  await add('slow');
  const worker = work('--for', '40s', '--max-jobs', '2');
  // By then it has looked at the other one, too.
  await until('one job is finished', () => count('finished') === 1);
  expect(count('queued')).toBe(1);
  writeFileSync(join(root, 'jobs/queue/late.mjs'), quick);
  expect(await worker.ended).toMatchObject({ status: 0, stderr: '' });
  expect(count('finished')).toBe(2);
  checkInvariants(root);
});

test('more fused jobs than one transaction takes fail one portion after the other', async () => {
  const { root, queue, work, count } = await open({ 'slow.mjs': quick });
  await queue.addMany(Array.from({ length: 1_200 }, () => ({ name: 'bad' })));
  await queue.pause('bad', { fail: true });
  expect((await work('--concurrency', '2').ended).status).toBe(0);
  expect(count('failed')).toBe(1_200);
  checkInvariants(root);
});

test.each([
  ['each executor at once', []],
  ['one executor after the other', ['--adaptive']],
])('no executor leaves while another one has a job, which may bring more: %s', async (_, how) => {
  const { root, add, work, count } = await open({ 'parent.mjs': parent, 'slow.mjs': quick });
  await add('slow', { priority: 900 });
  await add('parent');
  expect(await work('--concurrency', '2', ...how).ended).toMatchObject({ status: 0, stderr: '' });
  expect(count('finished')).toBe(4);
  checkInvariants(root);
});

test('on a full machine a worker ends when nothing is due, before and after its jobs', async () => {
  const { add, work, count } = await open({ 'slow.mjs': quick });
  expect((await work('--max-load', '0.0001').ended).status).toBe(0);
  await add('slow');
  expect((await work('--max-load', '0.0001', '--for', '100ms').ended).status).toBe(0);
  expect(count('finished')).toBe(0);
});

test.each([
  ['a worker that waits for no job', 'work'],
  ['a pass of a tier', 'hourly'],
])('on a full machine %s ends once it has waited as long as the limits say', async (_, command) => {
  const limits = { maxLoad: 0.0001, maxWait: '50ms' };
  const { root, add, start, count } = await open({ 'slow.mjs': quick }, { limits });
  mkdirSync(join(root, 'jobs/hourly'));
  await add('slow');
  expect(await start(command).ended).toMatchObject({ status: 0, stderr: '' });
  expect(count('queued')).toBe(1);
  const told = "select reason from workers where kind = 'queue'";
  expect(queryLog(root, told)).toEqual([{ reason: expect.stringMatching(/^the load average is/) }]);
});

test('of several workers that start at the same time no more get in than may', async () => {
  const { root, work } = await open({ 'slow.mjs': quick }, { workers: { max: 2 } });
  const workers = [1, 2, 3, 4].map(() => work('--wait', '10m'));
  await until('each has asked', () => queryLog(root, 'select 1 from workers').length === 4);
  const rows = queryLog<{ pid: number; state: string }>(root, 'select pid, state from workers');
  expect(rows.map(({ state }) => state).toSorted()).toEqual([...['running', 'running', 'skipped', 'skipped']]);
  const atWork = rows.filter(({ state }) => state === 'running').map(({ pid }) => pid);
  for (const worker of workers) if (atWork.includes(worker.pid)) worker.kill('SIGTERM');
  for (const { ended } of workers) expect((await ended).status).toBe(0);
});

const MB = 1024 * 1024;
const job = { id: 1, name: 'a', data: '{}', scheduled_for: null, run_at: 5, repeat: null };

/** An executor whose runner has a defect, which no handler can be made to show. */
async function openBroken(error: Error) {
  const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': 'export default () => {};\n' });
  const handlers = await openHandlers(root, defaultSettings);
  const told = { abandoned: 0 };
  const call = await makeLoggedCall(root);
  const executor = {
    ...{ call, heartbeat: { guard: () => {}, unguard: () => {} }, runStop: createRunStop(call.stop.signal) },
    recorder: { update: async () => {} },
    runner: {
      run: () => Promise.reject(error),
      abandon: () => {
        told.abandoned += 1;
      },
    },
  } as unknown as HandlerEquipment;
  const claimed = {
    ...{ key: '7.1', claim: { id: 1, token: '7.1' }, name: 'queue/a', script: handlers.find('a') },
    ...{ job: { ...job, parent_id: null, has_unreported_children: false } },
    ...{ attempt: 1, timeoutMs: 60_000 },
  } as unknown as HandlerRun;
  return { root, executor, claimed, told };
}

test('a defect of the runner ends the one job it was met with', async () => {
  const { executor, claimed, told } = await openBroken(new RangeError('Invalid string length'));
  const { end, isRetryable } = await runHandler(executor, claimed);
  expect({ ...end, isRetryable }).toMatchObject({
    outcome: 'failed',
    reason: 'the runner failed to run it: Invalid string length',
    durationMs: null,
    isRetryable: true,
  });
  // Its child may be at anything by now.
  expect(told.abandoned).toBe(1);
});

test.each(['ENOENT', 'EMFILE', 'EACCES'])(
  '%s at any file ends the one job that meets it, not the worker',
  async (code) => {
    const { executor, claimed } = await openBroken(Object.assign(new Error(`${code}: open`), { code }));
    const { end, isRetryable } = await runHandler(executor, claimed);
    expect({ ...end, isRetryable }).toMatchObject({
      ...{ outcome: 'failed', reason: `the runner failed to run it: ${code}: open`, isRetryable: true },
    });
  },
);

test('an error of the log ends no job: without the log none can be recorded', async () => {
  const failure = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_READ' });
  const { executor, claimed } = await openBroken(failure);
  await expect(runHandler(executor, claimed)).rejects.toBe(failure);
});

test('a parent whose children have left more than it can be told is not started', async () => {
  const { root, executor, claimed } = await openBroken(new Error('it was started'));
  changeLog(
    root,
    `with recursive n (i) as (select 1 union all select i + 1 from n where i < 33)
     insert into jobs (name, state, ready, parent_id, finished_at, result)
     select 'child', 'finished', null, 1, 1, '"' || hex(zeroblob(1048576)) || '"' from n`,
  );
  const { end, isRetryable } = await runHandler(executor, {
    ...claimed,
    job: { ...claimed.job, has_unreported_children: true },
  });
  expect({ ...end, isRetryable }).toMatchObject({
    outcome: 'not-started',
    reason: expect.stringMatching(/^the data and results of its children are 66 MB in total/),
    isRetryable: false,
  });
});

test('a log that is lost is no such defect', async () => {
  const lost = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR' });
  const { executor, claimed } = await openBroken(lost);
  await expect(runHandler(executor, claimed)).rejects.toBe(lost);
});

/** An executor with two jobs, and what it gives back of them. */
async function openWithTwo(runner: Partial<HandlerEquipment['runner']>) {
  const { executor, claimed, told } = await openBroken(new Error('not called'));
  const other = { ...claimed, key: '7.2', claim: { id: 2, token: '7.2' } };
  const given: unknown[] = [];
  const recorded: string[] = [];
  const equipment = {
    ...executor,
    recorder: {
      turn: async () => ({ settled: [], next: [claimed, other] }),
      release: async (runs: readonly HandlerRun[]) => void given.push(...runs.map(({ key }) => key)),
      recordProgress: async () => void recorded.push('memory'),
    },
    runner: { ...executor.runner, ...runner },
    heartbeat: { ...executor.heartbeat, note: () => {} },
    active: createActiveExecutors(() => {}),
    ahead: { window: () => 1, note: () => {} },
    watch: { found: () => {}, look: () => 1 },
    wake: { ring: () => {}, next: () => null },
    work: {
      noticeDeploy: () => {},
      reserve: () => 2,
      settle: (reserved: number) => reserved > 0 && given.push(reserved),
    },
    admit: async () => true,
  } as unknown as Equipment;
  return { executor: new QueueExecutor(equipment), claimed, other, given, recorded, told };
}

test('what was to be run with a job that lasts is given back once, however long that lasts', async () => {
  const over = Promise.withResolvers<readonly BegunEnd[]>();
  let asked: ShortRuns | null = null;
  const { executor, claimed, other, given, recorded } = await openWithTwo({
    run: (runs) => {
      asked = runs;
      return over.promise;
    },
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const running = executor.run([claimed, other]);
  const { requests, onLasting } = await vi.waitUntil(() => asked);
  requests[0].onStarted?.(process.pid);
  onLasting?.(1);
  await vi.advanceTimersByTimeAsync(100);
  expect([recorded.length, given]).toEqual([1, [other.key, 1]]);
  requests[0].onSample?.(MB);
  await vi.advanceTimersByTimeAsync(10_000);
  expect([recorded.length, given]).toEqual([2, [other.key, 1]]);
  over.resolve([{ end: endNotStarted({ failure: 'enough' }, 0), afterMs: 0 }]);
  await running;
});

test('an executor that breaks off gives back what waits behind its turn, and leaves its child alone', async () => {
  const { executor, claimed, other, given, told } = await openWithTwo({});
  expect(await executor.next()).toEqual([claimed]);
  expect(given).toEqual([]);
  await executor.giveBack();
  expect([given, told.abandoned]).toEqual([[other.key, 1], 1]);
});
