import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openQueue } from 'folder-runner';
import { expect, onTestFinished, test } from 'vitest';
import type { JobOptions } from '../../../src/queue/api.ts';
import { commandPath, cronEnv, startCommand } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/root.ts';
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
