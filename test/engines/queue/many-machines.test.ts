import { expect, test } from 'vitest';
import { addJobs } from '../../../src/queue/add/add.ts';
import type { NewJob } from '../../../src/queue/api.ts';
import { QueueError } from '../../../src/queue/errors.ts';
import type { ClaimedRow } from '../../../src/store/statements/claims.ts';
import { jobListsOf } from '../../../src/store/statements/list-jobs.ts';
import type { Store } from '../../../src/store/store.ts';
import { START } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openStoreOf } from '../../support/store.ts';
import { everything, openWorker, type WorkerClaims } from './worker-claims.ts';

interface Machine {
  readonly store: Store;
  readonly worker: WorkerClaims;
}

/** Each has a connection of its own to one log. */
async function openMachines(count: number): Promise<readonly [Machine, ...Machine[]]> {
  const root = makeTemporaryRoot();
  const machines: Machine[] = [];
  for (let index = 0; index < count; index += 1) {
    const store = await openStoreOf(root);
    machines.push({ store, worker: await openWorker({ store, clock: { at: START } }) });
  }
  return machines as [Machine, ...Machine[]];
}

const add = ({ store }: Machine, jobs: readonly NewJob<unknown>[]) =>
  store.transaction((session) => addJobs(session, jobs, START));

/** So many more times as two machines may meet in another order. */
const ROUNDS = 12;

test('each of 2,000 jobs is claimed by one of 8 connections, once', async () => {
  const machines = await openMachines(8);
  const ids = (await add(machines[0], Array(2_000).fill({ name: 'a' }))).map(({ id }) => id);
  const claimed: number[] = [];
  await Promise.all(
    machines.map(async ({ worker }, index) => {
      for (;;) {
        const jobs = await worker.claim(5 + 3 * index);
        if (jobs.length === 0) return;
        claimed.push(...jobs.map(({ id }) => id));
        await worker.settleTogether(jobs);
      }
    }),
  );
  expect(claimed.toSorted((one, other) => one - other)).toEqual(ids);
  expect(await jobListsOf(machines[0].store.statements).count(['*'], START)).toMatchObject([
    { state: 'finished', jobs: 2_000 },
  ]);
});

test('never more jobs of a group are claimed than may be, whoever takes them', async () => {
  const machines = await openMachines(4);
  const groups = ['x', 'y', 'z'];
  await add(
    machines[0],
    Array.from({ length: 90 }, (_, index) => ({ name: 'a', group: groups[index % 3] as string })),
  );
  const selection = { ...everything, groupLimit: 2 };
  const claimed = { states: ['claimed'], order: 'oldest', limit: 90, at: START } as const;
  let most = 0;
  let done = 0;
  await Promise.all(
    machines.map(async ({ store, worker }) => {
      while (done < 90) {
        const jobs = await worker.claim(4, { selection });
        const seen = Map.groupBy(await jobListsOf(store.statements).list(claimed), (job) => job.concurrency_key);
        most = Math.max(most, ...[...seen.values()].map(({ length }) => length));
        await worker.settleTogether(jobs);
        done += jobs.length;
      }
    }),
  );
  expect([most, done]).toEqual([2, 90]);
});

test('what is wanted is found behind what is not, and behind what others have', async () => {
  const [one, other] = (await openMachines(2)) as unknown as [Machine, Machine];
  await add(one, [...Array(600).fill({ name: 'unwanted', priority: 900 }), ...Array(4).fill({ name: 'wanted' })]);
  const selection = { ...everything, isWanted: (name: string) => name === 'wanted' };
  const [first, second] = await Promise.all([one.worker.claim(2, { selection }), other.worker.claim(2, { selection })]);
  const third = await one.worker.claim(2, { selection });
  const found = [...first, ...second, ...third].map(({ id }) => id);
  expect(found.toSorted((a, b) => a - b)).toEqual([601, 602, 603, 604]);
});

/** A parent that waits for children, each of which one of the machines has. */
async function startFamily(machines: readonly [Machine, ...Machine[]]) {
  const [first] = machines;
  const [added] = await add(first, [{ name: 'parent' }]);
  const parent = await first.worker.claimOne();
  const children = machines.map(() => ({ name: 'child', parent: parent.id }));
  await add(first, children);
  await first.worker.settle(parent);
  const jobs: ClaimedRow[] = [];
  for (const { worker } of machines) jobs.push(await worker.claimOne());
  return { parent: added?.id as number, jobs };
}

const stateOf = async ({ store }: Machine, id: number) => (await store.jobs.byId([id]))[0]?.state;

test('a parent is resumed once when its last children end at the same time', async () => {
  const machines = await openMachines(3);
  for (let round = 0; round < ROUNDS; round += 1) {
    const { parent, jobs } = await startFamily(machines);
    await Promise.all(machines.map(({ worker }, index) => worker.settle(jobs[index] as ClaimedRow)));
    expect(await stateOf(machines[0], parent)).toBe('queued');
    const resumed = await machines[0].worker.claimOne();
    expect(resumed).toMatchObject({ id: parent, has_unreported_children: true });
    await machines[0].worker.settle(resumed);
  }
});

test('a child that is added as its parent ends is waited for, or refused', async () => {
  const [one, other] = (await openMachines(2)) as unknown as [Machine, Machine];
  for (let round = 0; round < ROUNDS; round += 1) {
    await add(one, [{ name: 'parent' }]);
    const parent = await one.worker.claimOne();
    const [isAdded] = await Promise.all([
      add(other, [{ name: 'child', parent: parent.id }]).then(
        () => true,
        (error) => {
          if (error instanceof QueueError) return false;
          throw error;
        },
      ),
      one.worker.settle(parent),
    ]);
    expect(await stateOf(one, parent.id)).toBe(isAdded ? 'paused' : 'finished');
    if (!isAdded) continue;
    await other.worker.settle(await other.worker.claimOne());
    await one.worker.settle(await one.worker.claimOne());
  }
});

test('of many who add a job with the same key, one does', async () => {
  const machines = await openMachines(4);
  for (let round = 0; round < ROUNDS; round += 1) {
    const job = { name: 'a', uniqueKey: `key ${round}` };
    const added = (await Promise.all(machines.map((machine) => add(machine, [job])))).flat();
    expect(added.filter((each) => each.added)).toHaveLength(1);
    expect(new Set(added.map(({ id }) => id)).size).toBe(1);
  }
});

test('of many lists with the same keys in other orders, each key is one job, and each list keeps its order', async () => {
  const machines = await openMachines(4);
  const list = Array.from({ length: 1_200 }, (_, n) => ({ name: `a/${n}`, uniqueKey: `key ${n}` }));
  const turned = list.toReversed();
  const lists = [list, turned, [...list.slice(600), ...list.slice(0, 600)], [...turned.slice(600), ...turned]];
  const added = await Promise.all(machines.map((machine, index) => add(machine, lists[index] as typeof list)));
  const idsOf = new Map<string, Set<number>>();
  for (const [index, answers] of added.entries()) {
    const fresh = answers.filter((each) => each.added).map(({ id }) => id);
    expect(fresh).toEqual(fresh.toSorted((one, other) => one - other));
    for (const [place, { id }] of answers.entries()) {
      const key = lists[index]?.[place]?.uniqueKey as string;
      idsOf.set(key, (idsOf.get(key) ?? new Set()).add(id));
    }
  }
  expect(idsOf.size).toBe(1_200);
  expect([...idsOf.values()].every((ids) => ids.size === 1)).toBe(true);
  expect(added.flat().filter((each) => each.added)).toHaveLength(1_200);
});
