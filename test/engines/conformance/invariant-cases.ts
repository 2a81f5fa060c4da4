import fc from 'fast-check';
import { expect } from 'vitest';
import type { Queue } from '../../../src/queue/api.ts';
import { QueueError } from '../../../src/queue/errors.ts';
import type { JobRow, RunRow } from '../../../src/store/schema.ts';
import { readJobs, readRuns } from '../../support/log.ts';
import { openTestQueue, SECOND_MS, type TestQueue } from '../../support/queue.ts';
import { tries } from '../../support/tries.ts';
import type { Cases } from './cases.ts';

/** One call with whatever job; what is refused is no failure. */
type Step = { readonly verb: keyof typeof verbs; readonly pick: number; readonly n: number };

interface Call {
  readonly queue: Queue;
  readonly clock: { at: number };
  readonly id: number;
  readonly n: number;
}

const verbs = {
  add: ({ queue, n }: Call) => queue.add('a', n, n % 3 === 0 ? { repeat: 'FINISHED, +5 SECONDS' } : {}),
  addChild: ({ queue, id, n }: Call) =>
    queue.add('a', n, { parent: id, onChildFailure: n % 2 === 0 ? 'resume' : 'fail' }),
  claim: ({ queue }: Call) => queue.claim('*', { lease: '20s' }),
  wait: async ({ clock, n }: Call) => {
    clock.at += n * SECOND_MS;
  },
  touch: ({ queue, id }: Call) => queue.touch(id),
  finish: ({ queue, id }: Call) => queue.finish(id),
  retry: ({ queue, id, n }: Call) => queue.retry(id, n % 2 === 0 ? {} : { delay: '5s' }),
  fail: ({ queue, id }: Call) => queue.fail(id),
  bury: ({ queue, id }: Call) => queue.bury(id),
  kick: ({ queue, id }: Call) => queue.kick(id),
  kickMany: ({ queue, n }: Call) => queue.kickMany('*', n + 1),
  cancel: ({ queue, id }: Call) => queue.cancel(id),
  delete: ({ queue, id }: Call) => queue.delete(id),
  update: ({ queue, id, n }: Call) => queue.update(id, { data: n }),
  requeue: ({ queue, id, n }: Call) => queue.requeue([id], { forgetTry: n % 2 === 0 }),
  pause: ({ queue, n }: Call) => queue.pause('a', { for: '5s', fail: n % 2 === 0 }),
} as const;

/** What a family lives by is tried often. */
const common = ['addChild', 'claim', 'claim', 'claim', 'finish', 'finish', 'fail', 'retry', 'kick', 'requeue'];
const steps = fc.array(
  fc.record({
    verb: fc.constantFrom(...Object.keys(verbs), ...common) as fc.Arbitrary<Step['verb']>,
    pick: fc.nat(3),
    n: fc.nat(30),
  }),
  { minLength: 20, maxLength: 30, size: 'max' },
);

/** A parent that waits for two children, and a job of its own. */
async function begin({ queue }: TestQueue): Promise<void> {
  const parent = await queue.add('a');
  await queue.claim();
  await queue.addMany([
    { name: 'a', parent },
    { name: 'a', parent },
    { name: 'a', runAt: '+10s' },
  ]);
  await queue.finish(parent);
}

async function walk(log: TestQueue, walked: readonly Step[]): Promise<void> {
  let before = readRowsOf(log);
  for (const { verb, pick, n } of walked) {
    const id = before.jobs[pick % Math.max(before.jobs.length, 1)]?.id ?? 1;
    const { queue, clock } = log;
    const done = await verbs[verb]({ queue, clock, id, n }).catch((error: unknown) => {
      if (error instanceof QueueError) return null;
      throw error;
    });
    const after = readRowsOf(log);
    expect({ verb, id, wrong: findWrong(after, clock.at) }).toEqual({ verb, id, wrong: [] });
    if (verb === 'claim' && done !== null) expectFree(before.jobs, done as Claimed, clock.at);
    before = after;
  }
}

interface Claimed {
  readonly id: number;
}

/** No job is claimed a second time within its lease. */
function expectFree(before: readonly JobRow[], { id }: Claimed, at: number): void {
  const was = before.find((job) => job.id === id);
  if (was?.state === 'running') expect(was.lease_expires_at).toBeLessThan(at);
}

interface Rows {
  readonly jobs: readonly JobRow[];
  readonly runs: readonly RunRow[];
}

function readRowsOf({ root }: TestQueue): Rows {
  return { jobs: readJobs(root), runs: readRuns(root) };
}

const open = ['queued', 'running', 'retrying', 'paused'];
const claimable = ['queued', 'retrying'];

function findWrong({ jobs, runs }: Rows, at: number): string[] {
  const childrenOf = (id: number) => jobs.filter(({ parent_id }) => parent_id === id);
  const isPending = ({ state }: JobRow) => open.includes(state);
  return jobs.flatMap((job) => {
    const { id, state, parent_id } = job;
    const parent = jobs.find((each) => each.id === parent_id);
    const own = runs.filter((run) => run.job_id === id);
    const openRuns = own.filter(({ outcome }) => outcome === 'running').length;
    const isReady = job.ready === null ? null : job.ready === 1;
    const isRunning = state === 'running';
    const claims: readonly (readonly [boolean, string])[] = [
      [state !== 'paused' || parent_id !== null || childrenOf(id).some(isPending), 'waits for nobody'],
      [
        !claimable.includes(state) || parent_id === null || parent?.state === 'paused',
        'may be taken, though its parent does not wait',
      ],
      [parent_id === null || (parent !== undefined && parent.parent_id === null), 'is a grandchild'],
      [claimable.includes(state) === (isReady !== null), 'state and index disagree'],
      [isReady !== true || job.run_at <= at, 'it is ready before its time'],
      [isRunning === (job.claim_token !== null), 'state and claim disagree'],
      [isRunning === (job.lease_expires_at !== null), 'state and lease disagree'],
      [openRuns === (isRunning ? 1 : 0), `${openRuns} open runs`],
      [open.includes(state) === (job.finished_at === null), 'state and end disagree'],
      [own.length >= job.attempts && job.attempts >= 0, 'attempts'],
    ];
    return claims.flatMap(([holds, wrong]) => (holds ? [] : [`job ${id} (${state}): ${wrong}`]));
  });
}

export const invariantCases: Cases = {
  98: {
    title: 'whatever is done, families, claims and states agree',
    check: async () => {
      await fc.assert(
        fc.asyncProperty(steps, async (walked) => {
          const log = await openTestQueue();
          await begin(log);
          await walk(log, walked);
        }),
        { numRuns: tries(100) },
      );
    },
  },
};
