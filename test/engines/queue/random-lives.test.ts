import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { HandlerDecision } from '../../../src/child/contract.ts';
import { endExpiredLeases } from '../../../src/queue/claim/leases.ts';
import { QueueError } from '../../../src/queue/errors.ts';
import { createArchive } from '../../../src/queue/settle/archive.ts';
import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import type { ClaimedRow } from '../../../src/store/statements/claims.ts';
import { pruningOf } from '../../../src/store/statements/pruning.ts';
import type { Outcome } from '../../../src/store/words.ts';
import type { LoggedJob } from '../../support/engines/engine.ts';
import { checkQueue } from '../../support/faults/invariants.ts';
import { readContent } from '../../support/faults/log-content.ts';
import { lookIntoLog, queryLog } from '../../support/log.ts';
import { openTestQueue, type TestQueue } from '../../support/queue.ts';
import { tries } from '../../support/tries.ts';
import { everything, LEASE_MS, openWorker, type WorkerClaims } from './worker-claims.ts';

const settings = { leaseMs: LEASE_MS, missedCap: 3 };
const archive = createArchive({ 'gone/*': 'remove', 'failed/*': 'keep-failed' });
const names = ['kept', 'gone/a', 'failed/a'] as const;

/** What is done at random: each number chooses, by its rest, whom it concerns and how. */
interface Step {
  readonly what: keyof typeof steps;
  readonly pick: number;
}

/** What the model knows of a claim: whose it is, and until when nobody else may have the job. */
interface Held {
  readonly token: string;
  readonly workerId: number | null;
  until: number;
}

/** A claim of a worker; null: it is that of somebody else. */
interface Taken {
  readonly id: number;
  readonly token: string;
  readonly worker: WorkerClaims | null;
  readonly job: ClaimedRow | null;
}

interface Life extends TestQueue {
  readonly workers: readonly [WorkerClaims, WorkerClaims];
  /** Claims by whoever has them; those of a job that somebody else has taken back are here still. */
  readonly claims: Taken[];
  readonly held: Map<number, Held>;
}

const outcomes: readonly Outcome[] = ['succeeded', 'succeeded', 'failed', 'timed-out', 'crashed'];
const asks: readonly (HandlerDecision | null)[] = [
  ...[null, null, null, { kind: 'fail', reason: 'by itself' } as const],
  ...[{ kind: 'retry', delayMs: 1_000 } as const, { kind: 'retry', name: 'kept' } as const],
];
const rest = <Item>(items: readonly Item[], pick: number): Item => items[pick % items.length] as Item;

const rules = ['FINISHED, +1 MINUTE', 'every 60 seconds'];

const steps = {
  add: async ({ queue }: Life, pick: number) => {
    const repeats = pick % 5 === 0 ? { repeat: rest(rules, pick / 5) } : {};
    await queue.add(rest(names, pick), { pick }, { retries: pick % 3, ...repeats });
  },
  addChild: async ({ queue }: Life, pick: number) => {
    const onChildFailure = rest(['resume', 'fail'] as const, pick);
    const parent = 1 + (pick % 2);
    await queue.add(rest(names, pick), {}, { parent, onChildFailure, retries: pick % 2 });
  },
  claim: async (life: Life, pick: number) => {
    const { queue, clock, workers } = life;
    const worker = rest([workers[0], workers[1], null], pick);
    const count = 1 + (pick % 2);
    if (worker === null) {
      for (const { id, token } of await queue.claimMany('*', count)) {
        note(life, { id, token, worker, job: null });
      }
      return;
    }
    const selection = { ...everything, failsFast: () => pick % 17 === 0 };
    for (const job of await worker.claim(count, { selection, at: clock.at })) {
      note(life, { id: job.id, token: job.claim_token, worker, job });
    }
  },
  takeOne: async (life: Life, pick: number) => {
    const { id, token } = await life.queue.claimJob(1 + (pick % 5));
    note(life, { id, token, worker: null, job: null });
  },
  /** What was claimed goes on for a moment. */
  begin: async ({ claims, held, row }: Life, pick: number) => {
    const { id, token, worker, job } = rest(claims.slice(-3), pick) ?? {};
    const isHeld = held.get(id ?? 0)?.token === token && row(id ?? 0)?.state === 'claimed';
    if (worker && job && isHeld) await worker.begin(job);
  },
  giveBack: async ({ claims, held, row }: Life, pick: number) => {
    const { id, token, worker, job } = rest(claims.slice(-3), pick) ?? {};
    if (!worker || !job) return;
    const isHeld = row(job.id)?.claim_token === token && row(job.id)?.state === 'claimed';
    await worker.release(job);
    if (isHeld) held.delete(id as number);
  },
  end: async (life: Life, pick: number) => {
    const { claims, held, queue } = life;
    const taken = rest(claims.slice(-3), pick);
    if (taken === undefined) return;
    const { id, token, worker, job } = taken;
    const isHeld = held.get(id)?.token === token;
    if (worker === null || job === null) {
      await queue.finish({ id, token });
      held.delete(id);
      return;
    }
    const picked = rest(outcomes, pick);
    const ask = ['failed', 'timed-out'].includes(picked) ? rest(asks, pick) : null;
    const outcome = picked === 'failed' && ask?.kind === 'retry' ? 'released' : picked;
    const reason = outcome === 'succeeded' ? null : outcome;
    // Of a job that others have moved on, the end of its process leaves no claim.
    const readJobs = () =>
      queryLog<LoggedJob>(life.root, 'select * from jobs order by id').map(
        ({ claim_token: _, claimed_by: __, ...row }) => row,
      );
    const before = readJobs();
    const run = { outcome, reason, exit_code: reason === null ? 0 : 1 };
    const { decision } = await worker.settle(job, run, { decision: ask, archive });
    if (decision === null) expect(readJobs()).toEqual(before);
    else {
      expect(isHeld).toBe(true);
      held.delete(id);
    }
  },
  beat: async ({ clock, workers, held }: Life, pick: number) => {
    const worker = rest(workers, pick);
    await worker.renew();
    for (const each of held.values()) {
      // One that had run out may have been taken back: the model does not know whether it still holds.
      const holds = each.until > clock.at;
      if (each.workerId === worker.workerId && holds) each.until = clock.at + LEASE_MS;
    }
  },
  look: async ({ store, clock }: Life) => {
    await endExpiredLeases(
      store,
      () => clock.at,
      settings,
      async () => () => policyOf(),
    );
  },
  wait: async ({ clock }: Life, pick: number) => {
    clock.at += rest([1, 1_000, 20_000, 61_000, 300_000], pick);
  },
  release: ({ queue, held }: Life, pick: number) => freed(held, pick, (id) => queue.retry(id)),
  fail: ({ queue, held }: Life, pick: number) => freed(held, pick, (id) => queue.fail(id)),
  bury: ({ queue, held }: Life, pick: number) => freed(held, pick, (id) => queue.bury(id)),
  requeue: ({ queue, held }: Life, pick: number) => freed(held, pick, (id) => queue.requeue([id])),
  kick: ({ queue }: Life, pick: number) => queue.kick(1 + (pick % 5)),
  cancel: ({ queue }: Life, pick: number) => queue.cancel(1 + (pick % 5)),
  delete: ({ queue }: Life, pick: number) => queue.delete(1 + (pick % 5)),
  prune: async ({ store, clock }: Life) => {
    const before = clock.at - 600_000;
    await store.transaction(({ statements }) => pruningOf(statements).endedJobs(['finished', 'cancelled'], before, 10));
  },
} as const;

/** Nobody else has it, by all that was told to the model. */
function note({ claims, held, clock }: Life, taken: Taken): void {
  const { id, token, worker } = taken;
  expect(held.get(id)?.until ?? 0).toBeLessThanOrEqual(clock.at);
  expect(token).not.toBe(held.get(id)?.token);
  claims.push(taken);
  held.set(id, { token, workerId: worker?.workerId ?? null, until: clock.at + LEASE_MS });
}

/** Of whom a verb takes the job, nobody has it any more. */
async function freed(held: Map<number, Held>, pick: number, verb: (id: number) => Promise<unknown>) {
  const id = 1 + (pick % 5);
  await verb(id);
  held.delete(id);
}

async function begin(): Promise<Life> {
  const log = await openTestQueue();
  const workers = [await openWorker(log, { missedCap: 3 }), await openWorker(log)] as const;
  const parent = await log.take('kept');
  const child = { name: 'kept', parent: parent.id };
  await log.queue.addMany([child, child]);
  await log.queue.finish(parent);
  return { ...log, workers, claims: [], held: new Map() };
}

const often = ['claim', 'claim', 'begin', 'end', 'end', 'end', 'addChild', 'addChild', 'wait', 'look'] as const;
const anyStep = fc.record({
  what: fc.constantFrom(...(Object.keys(steps) as Step['what'][]), ...often),
  pick: fc.nat(1_000),
});

test('whatever is done in whatever order, every life can be, and nobody waits for nothing', async () => {
  const property = fc.asyncProperty(
    fc.array(anyStep, { minLength: 30, maxLength: 60, size: 'max' }),
    async (sequence) => {
      const life = await begin();
      for (const { what, pick } of sequence) {
        try {
          await steps[what](life, pick);
        } catch (error) {
          // What is refused changes nothing: verbs-by-state.test.ts
          if (!(error instanceof QueueError)) throw error;
        }
        expect(checkQueue(lookIntoLog(life.root, readContent), false, false)).toEqual([]);
      }
    },
  );
  await fc.assert(property, { numRuns: tries(40), endOnFailure: true });
});
