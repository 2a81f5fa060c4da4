import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { HandlerAsk } from '../../src/child/contract.ts';
import { type ClaimedRow, claimJobs } from '../../src/queue/claim/claim.ts';
import { endExpiredLeases, renewLeases } from '../../src/queue/claim/leases.ts';
import { QueueError } from '../../src/queue/errors.ts';
import { createArchive } from '../../src/queue/settle/archive.ts';
import { policyOf } from '../../src/queue/settle/retry-policy.ts';
import { endQueuedRun } from '../../src/queue/settle/settle-run.ts';
import { recordActivity } from '../../src/store/events.ts';
import { deleteEndedJobs } from '../../src/store/prune.ts';
import type { Outcome } from '../../src/store/schema.ts';

import { makeFinishedRun } from '../support/finished-run.ts';
import { type LogContent, readLog } from '../support/invariants-log.ts';
import { checkQueue } from '../support/invariants-queue.ts';
import { queryLog } from '../support/open-log.ts';
import { MINUTE_MS, openTestQueue, START, type TestQueue } from '../support/test-queue.ts';
import { tries } from '../support/tries.ts';
import { writeLog } from '../support/written-log.ts';

const LEASE_MS = MINUTE_MS;
const settings = { leaseMs: LEASE_MS, missedCap: 3 };
const archive = createArchive({ 'gone/*': 'remove', 'failed/*': 'keep-failed' }, () => {});
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

interface Life extends TestQueue {
  readonly workers: readonly [number, number];
  /** Claims by whoever has them; those of a job that somebody else has taken back are here still. */
  readonly claims: ClaimedRow[];
  readonly held: Map<number, Held>;
}

const outcomes: readonly Outcome[] = ['succeeded', 'succeeded', 'failed', 'timed-out', 'crashed'];
const asks: readonly (HandlerAsk | null)[] = [
  ...[null, null, null, { kind: 'fail', reason: 'by itself' } as const],
  ...[{ kind: 'retry', delayMs: 1_000 } as const, { kind: 'retry', name: 'kept' } as const],
];
const rest = <Item>(items: readonly Item[], pick: number): Item =>
  items[pick % items.length] as Item;

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
    const { db, clock, workers, claims, held } = life;
    const workerId = rest([workers[0], workers[1], null], pick);
    const selection = { groupLimit: null, isWanted: () => true, isFused: () => pick % 17 === 0 };
    const facts = { policy: policyOf({}), timeoutMs: null, contentHash: null, isWarm: true };
    const claiming = { workerId, at: clock.at, defaultLeaseMs: LEASE_MS, handlerOf: () => facts };
    for (const claimed of await claimJobs(db, async () => selection, claiming, 1 + (pick % 2))) {
      const { id, token } = claimed.claim;
      // Nobody else has it, by all that was told to the model.
      expect(held.get(id)?.until ?? 0).toBeLessThanOrEqual(clock.at);
      expect(token).not.toBe(held.get(id)?.token);
      claims.push(claimed);
      held.set(id, { token, workerId, until: clock.at + LEASE_MS });
    }
  },
  end: async (life: Life, pick: number) => {
    const { db, clock, claims, held } = life;
    const claimed = rest(claims.slice(-3), pick);
    if (claimed === undefined) return;
    const { claim } = claimed;
    const picked = rest(outcomes, pick);
    const ask = ['failed', 'timed-out'].includes(picked) ? rest(asks, pick) : null;
    const outcome = picked === 'failed' && ask?.kind === 'retry' ? 'released' : picked;
    const reason = outcome === 'succeeded' ? null : outcome;
    const run = makeFinishedRun({
      outcome,
      reason,
      exit_code: reason === null ? 0 : 1,
      finished_at: clock.at,
    });
    const ended = { claim, run, result: null, ask, isRetryable: true };
    const teller = { workerId: null, missedCap: 3, archive };
    const before = queryLog(life.root, 'select * from jobs');
    const verdict = await db
      .transaction()
      .execute((transaction) => endQueuedRun(transaction, ended, teller));
    if (verdict === null) expect(queryLog(life.root, 'select * from jobs')).toEqual(before);
    else {
      expect(claim.token).toBe(held.get(claim.id)?.token);
      held.delete(claim.id);
    }
  },
  beat: async ({ db, clock, workers, held }: Life, pick: number) => {
    const workerId = rest(workers, pick);
    await renewLeases(db, workerId, { at: clock.at, defaultLeaseMs: LEASE_MS });
    for (const each of held.values()) {
      // One that had run out may have been taken back: the model does not know whether it still holds.
      const holds = each.until > clock.at;
      if (each.workerId === workerId && holds) each.until = clock.at + LEASE_MS;
    }
  },
  look: async ({ db, clock }: Life) => {
    await endExpiredLeases(db, () => clock.at, settings);
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
  prune: async ({ db, clock }: Life) => {
    await deleteEndedJobs(db, ['finished', 'cancelled'], clock.at - 600_000, 10);
  },
} as const;

/** Of whom a verb takes the job, nobody has it any more. */
async function freed(
  held: Map<number, Held>,
  pick: number,
  verb: (id: number) => Promise<unknown>,
) {
  const id = 1 + (pick % 5);
  await verb(id);
  held.delete(id);
}

async function begin(): Promise<Life> {
  const log = await openTestQueue();
  const { addPass } = await writeLog(log.root);
  const workers = [0, 0].map(async () => {
    const workerId = await addPass(`t${Math.random()}`, START, { state: 'running' });
    await recordActivity(log.db, { at: START, event: 'worker-started', workerId });
    return workerId;
  });
  const [one = 0, other = 0] = await Promise.all(workers);
  const parent = await log.take('kept');
  const child = { name: 'kept', parent: parent.id };
  await log.queue.addMany([child, child]);
  await log.queue.finish(parent);
  return { ...log, workers: [one, other], claims: [], held: new Map() };
}

const often = [
  'claim',
  'claim',
  'end',
  'end',
  'end',
  'addChild',
  'addChild',
  'wait',
  'look',
] as const;
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
        expect(checkQueue(readLog(life.root) as LogContent, false)).toEqual([]);
      }
    },
  );
  await fc.assert(property, { numRuns: tries(40), endOnFailure: true });
});
