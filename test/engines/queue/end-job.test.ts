import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { JobOptions, JobRef, Queue } from '../../../src/queue/api.ts';
import { openSharedQueue } from '../../../src/queue/queue.ts';
import type { JobState } from '../../../src/store/words.ts';
import { createLogClock } from '../../../src/system/base/clock.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { engine } from '../../support/engines/engines.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START, type TestQueue } from '../../support/queue.ts';

type Verb = 'finish' | 'retry' | 'fail' | 'bury';

/** Whom it concerns: a running job, and its family, which is numbered in this order. */
interface Family {
  readonly job: JobRef;
  readonly family: readonly number[];
}

/** @param name its children's is the same, with another end */
async function bear(log: TestQueue, name: string, count: number, onChildFailure: 'resume' | 'fail' = 'resume') {
  const parent = await log.take(`${name}/parent`, { onChildFailure });
  const child = { name: `${name}/child`, parent: parent.id };
  const children = await log.queue.addMany(Array.from({ length: count }, () => child));
  return { parent, children, family: [parent.id, ...children] };
}

async function raise(log: TestQueue, name: string, count: number, onChildFailure: 'resume' | 'fail' = 'resume') {
  const { parent, family } = await bear(log, name, count, onChildFailure);
  await log.queue.finish(parent);
  return { family, job: (await log.queue.claim(`${name}/child`)) ?? 0 };
}

async function takeAlone({ take }: TestQueue, name: string, options: JobOptions = {}): Promise<Family> {
  const job = await take(name, options);
  return { job, family: [job.id] };
}

const situations = {
  'a plain job': takeAlone,
  'a repeating job': (log, name) => takeAlone(log, name, { repeat: 'SCHEDULED, +1 HOUR' }),
  'a parent whose children wait for it': async (log, name) => {
    const { parent, family } = await bear(log, name, 2);
    return { job: parent, family };
  },
  'a parent that was resumed': async (log, name) => {
    const { job, family } = await raise(log, name, 1);
    await log.queue.finish(job);
    return { job: (await log.queue.claim(`${name}/parent`)) ?? 0, family };
  },
  'the last child': (log, name) => raise(log, name, 1),
  'the last child of a parent that fails with it': (log, name) => raise(log, name, 1, 'fail'),
  'a child with a sibling': (log, name) => raise(log, name, 2),
} as const satisfies Record<string, (log: TestQueue, name: string) => Promise<Family>>;

type Situation = keyof typeof situations;

/** The states of the family afterwards, in its order. */
const table: Readonly<Record<Situation, Readonly<Record<Verb, readonly JobState[]>>>> = {
  'a plain job': { finish: ['finished'], retry: ['retrying'], fail: ['failed'], bury: ['failed'] },
  'a repeating job': { finish: ['queued'], retry: ['queued'], fail: ['failed'], bury: ['failed'] },
  'a parent whose children wait for it': {
    finish: ['paused', 'queued', 'queued'],
    retry: ['retrying', 'paused', 'paused'],
    fail: ['failed', 'cancelled', 'cancelled'],
    bury: ['failed', 'cancelled', 'cancelled'],
  },
  'a parent that was resumed': {
    finish: ['finished', 'finished'],
    retry: ['retrying', 'finished'],
    fail: ['failed', 'finished'],
    bury: ['failed', 'finished'],
  },
  'the last child': {
    finish: ['queued', 'finished'],
    retry: ['paused', 'retrying'],
    fail: ['queued', 'failed'],
    bury: ['queued', 'failed'],
  },
  'the last child of a parent that fails with it': {
    finish: ['queued', 'finished'],
    retry: ['paused', 'retrying'],
    fail: ['failed', 'failed'],
    bury: ['failed', 'failed'],
  },
  'a child with a sibling': {
    finish: ['paused', 'finished', 'queued'],
    retry: ['paused', 'retrying', 'queued'],
    fail: ['paused', 'failed', 'queued'],
    bury: ['paused', 'failed', 'queued'],
  },
};

const verbs: Readonly<Record<Verb, (queue: Queue, job: JobRef) => Promise<void>>> = {
  finish: (queue, job) => queue.finish(job),
  retry: (queue, job) => queue.retry(job),
  fail: (queue, job) => queue.fail(job),
  bury: (queue, job) => queue.bury(job),
};

/** What a policy takes out: who has ended, with children that it was told of or that ended with it. */
function isRemoved(policy: string, states: readonly JobState[], index: number): boolean {
  const [first, ...others] = states;
  const isParent = others.length > 0;
  if (isParent && index > 0) return isRemoved(policy, states, 0);
  if (policy === 'remove') return ['finished', 'failed', 'cancelled'].includes(first ?? '');
  return policy === 'keep-failed' && (first === 'finished' || first === 'cancelled');
}

describe.each(['keep', 'keep-failed', 'remove'])('with the archive’s policy %s', (policy) => {
  const rows = (Object.keys(table) as Situation[]).flatMap((situation) =>
    (Object.keys(verbs) as Verb[]).map((verb) => [situation, verb] as const),
  );
  test('each verb leads each job, and its family, where the table says', async () => {
    const log = await openTestQueue({ archive: { '*': policy } });
    let isPruned = false;
    for (const [index, [situation, verb]] of rows.entries()) {
      const { job, family } = await situations[situation](log, `n${index}`);
      await verbs[verb](log.queue, job);
      const states = table[situation][verb];
      // A parent that its child's failure ends is not asked about: it is kept, and says so.
      const isEndedByChild = situation.includes('fails with it') && states[0] === 'failed';
      // What was buried waits to be kicked.
      const isKept = isEndedByChild || verb === 'bury';
      const expected = states.map((state, at) => (!isKept && isRemoved(policy, states, at) ? undefined : state));
      const found = family.map((id) => log.row(id)?.state);
      expect.soft(found, `${situation}, ${verb}`).toEqual(expected);
      isPruned ||= expected.includes(undefined);
    }
    const runs = queryLog(log.root, 'select 1 from runs where job_id not in (select id from jobs)');
    expect(runs).toEqual([]);
    checkInvariants(log.root, { isSettled: false, isPruned });
  });
});

test('a repeating job goes on by the time that it was due at, whatever it was retried', async () => {
  const { queue, take, row, clock } = await openTestQueue();
  const job = await take('a', { repeat: 'SCHEDULED, +1 HOUR' });
  await queue.retry(job, { delay: '10m', ignoreRepeat: true });
  expect(row(job.id)).toMatchObject({ state: 'retrying', scheduled_for: START, attempts: 0 });
  clock.at += HOUR_MS / 2;
  const again = await queue.claim();
  await queue.finish(again ?? 0, { data: { seed: 1 }, result: 'done' });
  expect(row(job.id)).toMatchObject({
    ...{ state: 'queued', run_at: START + HOUR_MS, scheduled_for: START + HOUR_MS, attempts: 0 },
    ...{ data: '{"seed":1}', result: '"done"', finished_at: null, claim_token: null },
  });
});

test('a parent that repeats is told of each family once, and what was told can go', async () => {
  const { queue, take, row, clock } = await openTestQueue();
  const parent = await take('parent', { repeat: 'FINISHED, +1 HOUR' });
  const first = await queue.add('child', {}, { parent: parent.id });
  await queue.finish(parent);
  await queue.finish((await queue.claim('child')) ?? 0, { result: 1 });
  expect(row(first).reported_to_parent).toBe(0);
  const resumed = await queue.claim('parent');
  expect(resumed?.children.finished).toMatchObject([{ id: first, result: 1 }]);
  const second = await queue.add('child', {}, { parent: parent.id });
  await queue.finish(resumed ?? 0);
  expect([row(first).reported_to_parent, row(second).reported_to_parent, row(parent.id).state]).toEqual([
    1,
    0,
    'paused',
  ]);
  await queue.fail((await queue.claim('child')) ?? 0);
  const last = await queue.claim('parent');
  expect(last?.children).toMatchObject({ finished: [], failed: [{ id: second }], cancelled: [] });
  await queue.finish(last ?? 0);
  expect([row(second).reported_to_parent, row(parent.id).state]).toEqual([1, 'queued']);
  clock.at += HOUR_MS;
  expect((await queue.claim('parent'))?.children.failed).toEqual([]);
});

test.each([
  ['cancelled', 'cancelled', `its parent, job 1, has ended`],
  ['requeued', 'retrying', null],
] as const)('a child that is retried while its parent is %s is %s', async (what, state, reason) => {
  const log = await openTestQueue();
  const { job } = await raise(log, 'a', 1);
  const { queue, row, root } = log;
  await queue.cancel(1);
  if (what === 'requeued') await queue.requeue([1]);
  await queue.retry(job);
  expect(row(2)).toMatchObject({ state, reason });
  checkInvariants(root, { isSettled: false });
});

test('a running child outlives the parent that is removed, and its end is recorded', async () => {
  const log = await openTestQueue({ archive: { '*': 'remove' } });
  const { queue, row, runs, root } = log;
  const { job } = await raise(log, 'a', 2);
  await queue.cancel(1);
  expect([row(1), row(2).state, row(3)]).toEqual([undefined, 'running', undefined]);
  await queue.finish(job, { result: 7 });
  expect(row(2)).toMatchObject({ state: 'finished', result: '7' });
  expect(runs(2)).toMatchObject([{ outcome: 'succeeded' }]);
  checkInvariants(root, { isSettled: false, isPruned: true });
});

test('an output file of a job that is not kept goes once that is committed, and not before', async () => {
  const { take, root, row } = await openTestQueue({ archive: { '*': 'remove' } });
  const job = await take('a');
  const state = stateFolderOf(root);
  const file = join(state.output, '1.1.log.gz');
  changeLog(root, `update jobs set attempts = 1`);
  changeLog(
    root,
    `insert into runs (job_id, script_id, attempt, outcome, started_at, output_file)
     values (${job.id}, 1, 1, 'failed', 0, '1.1.log.gz')`,
  );
  writeFileSync(file, '');
  const shared = await openSharedQueue({ root, now: () => START }, JSON.parse, createLogClock());
  onTestFinished(() => shared.close());
  const makeRoom = engine.refuse(root, 'insert on events');
  await expect(shared.as('somebody').finish(job)).rejects.toThrow();
  expect([row(job.id).state, existsSync(file)]).toEqual(['running', true]);
  makeRoom();
  await shared.as('somebody').finish(job);
  expect([row(job.id), existsSync(file)]).toEqual([undefined, false]);
});

test('an end before its start, as the clock was set back, has no duration', async () => {
  const { queue, take, runs, clock } = await openTestQueue();
  const job = await take('a');
  clock.at -= HOUR_MS;
  await queue.finish(job);
  expect(runs(job.id)).toMatchObject([{ duration_us: null, finished_at: START - HOUR_MS }]);
});

test('a parent may have any number of children', async () => {
  const log = await openTestQueue();
  const { parent } = await bear(log, 'a', 0);
  const children = Array.from({ length: 6_000 }, () => ({ name: 'child', parent: parent.id }));
  await log.queue.addMany(children);
  await log.queue.finish(parent);
  expect(await log.queue.count('child')).toMatchObject([{ name: 'child', ready: 6_000 }]);
  await log.queue.cancel(parent.id);
  expect(await log.queue.count('child')).toMatchObject([{ name: 'child', cancelled: 6_000 }]);
  await log.queue.delete(parent.id);
  expect(queryLog(log.root, 'select count(*) as n from jobs')).toEqual([{ n: 0 }]);
});
