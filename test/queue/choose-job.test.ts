import { spawnSync } from 'node:child_process';
import Sqlite from 'better-sqlite3';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/place/state-folder.ts';
import { type ClaimedRow, claimJobs, type QueueSelection } from '../../src/queue/claim/claim.ts';
import { selectNextDue } from '../../src/queue/claim/waiting.ts';
import type { Store } from '../../src/store/store.ts';

import { inRoot } from '../support/in-root.ts';
import { commandPath } from '../support/run-command.ts';
import { cronEnv } from '../support/run-pass.ts';
import { openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { tries } from '../support/tries.ts';

const NOW = 1_000_000;

interface Waiting {
  readonly name: string;
  readonly priority: number;
  readonly runAt: number;
  readonly group: string | null;
  readonly state: 'queued' | 'retrying' | 'paused';
}

interface Rules {
  readonly wanted: readonly string[];
  readonly fused: readonly string[];
  readonly groupLimit: number | null;
}

const names = ['a', 'b', 'c', 'd'] as const;

const waiting = fc.record({
  name: fc.constantFrom(...names),
  priority: fc.constantFrom(-1, 0, 500, 1000),
  runAt: fc.integer({ min: NOW - 2, max: NOW + 2 }),
  group: fc.constantFrom(null, null, 'g', 'h'),
  state: fc.constantFrom(
    'queued' as const,
    'queued' as const,
    'retrying' as const,
    'paused' as const,
  ),
});

const rules = fc.record({
  wanted: fc.subarray([...names]),
  fused: fc.subarray([...names], { maxLength: 1 }),
  groupLimit: fc.constantFrom(null, 1, 2),
});

const claiming = {
  workerId: null,
  at: NOW,
  defaultLeaseMs: 60_000,
  handlerOf: () => null,
} as const;

function toSelection({ wanted, fused, groupLimit }: Rules): QueueSelection {
  return {
    groupLimit,
    isWanted: (name) => wanted.includes(name),
    isFused: (name) => fused.includes(name),
  };
}

/** The same, over an array: the numbers of the jobs in the order in which they are taken. */
function model(jobs: readonly Waiting[], { wanted, fused, groupLimit }: Rules): number[] {
  const due = jobs
    .map((job, index) => ({ ...job, id: index + 1 }))
    .filter(({ state, runAt, name }) => state !== 'paused' && runAt <= NOW && wanted.includes(name))
    .sort((x, y) => y.priority - x.priority || x.runAt - y.runAt || x.id - y.id);
  const running = new Map<string, number>();
  return due.flatMap(({ id, name, group }) => {
    const count = group === null ? 0 : (running.get(group) ?? 0);
    if (group !== null && groupLimit !== null && count >= groupLimit) return [];
    if (fused.includes(name)) return [];
    if (group !== null) running.set(group, count + 1);
    return id;
  });
}

async function fill(store: Store, jobs: readonly Waiting[]): Promise<void> {
  await store.db.deleteFrom('jobs').execute();
  for (const [index, { name, priority, runAt, group, state }] of jobs.entries()) {
    const job = { id: index + 1, name, state, priority, run_at: runAt, group_key: group };
    await store.db.insertInto('jobs').values(job).execute();
  }
}

const idsOf = (claimed: readonly ClaimedRow[]): number[] => claimed.map(({ job }) => job.id);

test('jobs are taken by priority, due time and number, among those that may be taken', async () => {
  const store = await openStoreOf(makeTemporaryRoot());
  const isSame = async (jobs: readonly Waiting[], ruled: Rules): Promise<void> => {
    const expected = model(jobs, ruled);
    await store.withoutSync(async (db) => {
      await fill({ ...store, db }, jobs);
      const claimed = await claimJobs(db, async () => toSelection(ruled), claiming, 100);
      expect(idsOf(claimed)).toEqual(expected);
      const left = await db.selectFrom('jobs').select(['id', 'state']).execute();
      const failed = left.filter(({ state }) => state === 'failed').map(({ id }) => id);
      for (const id of failed) expect(ruled.fused).toContain(jobs[id - 1]?.name);
      const next = jobs.filter(({ state, runAt }) => state !== 'paused' && runAt > NOW);
      const nextDue = next.length === 0 ? null : Math.min(...next.map(({ runAt }) => runAt));
      expect(await selectNextDue(db, NOW)).toBe(nextDue);
    });
  };
  // More of them than are looked at before each name is.
  const property = fc.asyncProperty(
    fc.array(waiting, { maxLength: 60, size: 'max' }),
    rules,
    isSame,
  );
  await fc.assert(property, { numRuns: tries(150) });
});

test('a full group steps aside for others, however many it has in front', async () => {
  const store = await openStoreOf(makeTemporaryRoot());
  const front: Waiting = { name: 'a', priority: 900, runAt: 1, group: 'g', state: 'queued' };
  const jobs = [
    ...Array.from({ length: 50 }, () => front),
    { ...front, name: 'b', group: 'h', priority: 1 },
    { ...front, name: 'a', group: null, priority: 0 },
  ];
  await fill(store, jobs);
  const selection = toSelection({ wanted: ['a', 'b'], fused: [], groupLimit: 2 });
  const claimed = await claimJobs(store.db, async () => selection, claiming, 10);
  expect(idsOf(claimed)).toEqual([1, 2, 51, 52]);
});

test.each(['9223372036854775807', '9007199254740995', '-9007199254740993'])(
  'a priority of %s, which the log refuses, would keep nobody busy for ever',
  async (priority) => {
    const root = makeTemporaryRoot();
    await inRoot(root, 'add', 'later', '--at', '+1h');
    const database = new Sqlite(stateFolderOf(root).database);
    database.pragma('ignore_check_constraints = on');
    const inAnHour = Date.now() + 3_600_000;
    database.exec(
      `insert into jobs (name, priority, run_at) values ('a', ${priority}, ${inAnHour})`,
    );
    database.close();
    // One that is kept busy hears no other signal.
    const how = { cwd: root, env: cronEnv(root), timeout: 40_000, killSignal: 'SIGKILL' } as const;
    const claim = spawnSync(process.execPath, [commandPath, 'claim', '--wait', '10ms'], how);
    expect([claim.status, claim.signal]).toEqual([1, null]);
  },
);

test('what nobody here wants steps aside, however many names it has', async () => {
  const store = await openStoreOf(makeTemporaryRoot());
  const other: Waiting = { name: 'x', priority: 900, runAt: 1, group: null, state: 'queued' };
  const jobs = [
    ...Array.from({ length: 70 }, (_, n) => ({ ...other, name: `x${n}` })),
    { ...other, name: 'b', priority: 1, runAt: NOW + 1 },
    { ...other, name: 'b', priority: 1, runAt: NOW },
    { ...other, name: 'a', priority: 1, runAt: NOW - 1 },
    { ...other, name: 'a', priority: 2, runAt: NOW },
  ];
  await fill(store, jobs);
  const selection = toSelection({ wanted: ['a', 'b'], fused: [], groupLimit: null });
  const claimed = await claimJobs(store.db, async () => selection, claiming, 10);
  expect(idsOf(claimed)).toEqual([74, 73, 72]);
});
