import { spawnSync } from 'node:child_process';
import Sqlite from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { QueueSelection } from '../../../src/queue/claim/claim.ts';
import { jobListsOf } from '../../../src/store/statements/list-jobs.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { takeNext } from '../../engines/conformance/cases.ts';
import { everything, openWorker } from '../../engines/queue/worker-claims.ts';
import { commandPath, cronEnv, inRoot } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, SECOND_MS } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { explainQueries, openSqliteOf } from '../../support/store.ts';

const NOW = 1.7e12;

interface Waiting {
  readonly name: string;
  readonly priority: number;
  readonly runAt: number;
  readonly group: string | null;
  readonly state: 'queued' | 'retrying' | 'paused';
}

interface Rules {
  readonly wanted: readonly string[];
  readonly failing: readonly string[];
  readonly groupLimit: number | null;
  readonly minPriority?: number | undefined;
}

const names = ['a', 'b', 'c', 'd'] as const;

const waiting = fc.record({
  name: fc.constantFrom(...names),
  priority: fc.constantFrom(-1, 0, 500, 1000),
  runAt: fc.integer({ min: NOW - 2, max: NOW + 2 }),
  group: fc.constantFrom(null, null, 'g', 'h'),
  state: fc.constantFrom('queued' as const, 'queued' as const, 'retrying' as const, 'paused' as const),
});

const rules = fc.record({
  wanted: fc.subarray([...names]),
  failing: fc.subarray([...names], { maxLength: 1 }),
  groupLimit: fc.constantFrom(null, 1, 2),
  minPriority: fc.constantFrom(undefined, undefined, 0, 500, 501),
});

function toSelection({ wanted, failing, groupLimit, minPriority }: Rules): QueueSelection {
  return {
    minPriority,
    groupLimit,
    isWanted: (name) => wanted.includes(name),
    failsFast: (name) => failing.includes(name),
  };
}

/** The same, over an array: the numbers of the jobs in the order in which they are taken. */
function model(jobs: readonly Waiting[], { wanted, failing, groupLimit, minPriority = -1 }: Rules): number[] {
  const due = jobs
    .map((job, index) => ({ ...job, id: index + 1 }))
    .filter(({ state, runAt, name }) => state !== 'paused' && runAt <= NOW && wanted.includes(name))
    .filter(({ priority }) => priority >= minPriority)
    .sort((x, y) => y.priority - x.priority || x.runAt - y.runAt || x.id - y.id);
  const running = new Map<string, number>();
  return due.flatMap(({ id, name, group }) => {
    const count = group === null ? 0 : (running.get(group) ?? 0);
    if (group !== null && groupLimit !== null && count >= groupLimit) return [];
    if (failing.includes(name)) return [];
    if (group !== null) running.set(group, count + 1);
    return id;
  });
}

/** A log with these jobs, and who takes them. */
async function open(jobs: readonly Waiting[] = []) {
  const root = makeTemporaryRoot();
  const store = await openSqliteOf(root);
  const worker = await openWorker({ store, clock: { at: NOW } });
  const fill = (all: readonly Waiting[]): void => {
    store.connection.exec('delete from jobs');
    const insert = store.connection.prepare(
      `insert into jobs (id, name, state, priority, run_at, concurrency_key, ready)
       values (?, ?, ?, ?, ?, ?, ?)`,
    );
    for (const [index, { name, priority, runAt, group, state }] of all.entries()) {
      const ready = state === 'paused' ? null : 0;
      insert.run([index + 1, name, state, priority, runAt, group, ready]);
    }
  };
  fill(jobs);
  const claim = async (count: number, selection: QueueSelection) =>
    (await worker.claim(count, { selection })).map(({ id }) => id);
  return { root, store, fill, claim };
}

describe('the order in which jobs are taken', () => {
  test('is by priority, due time and number, among those that may be taken', async () => {
    const { store, fill, claim } = await open();
    const isSame = async (jobs: readonly Waiting[], ruled: Rules): Promise<void> => {
      fill(jobs);
      const selection = toSelection(ruled);
      const first = model(jobs, { ...ruled, failing: [] })[0] ?? null;
      expect((await store.claims.next(selection, NOW))?.id ?? null).toBe(first);
      expect(await claim(100, selection)).toEqual(model(jobs, ruled));
      const failed = await jobListsOf(store.statements).list({
        states: ['failed'],
        order: 'newest',
        limit: 100,
        at: NOW,
      });
      for (const { name } of failed) expect(ruled.failing).toContain(name);
      const next = jobs.filter(({ state, runAt }) => state !== 'paused' && runAt > NOW);
      const nextDue = next.length === 0 ? null : Math.min(...next.map(({ runAt }) => runAt));
      // No lease of these ends as soon as that.
      expect((await store.claims.nextWake(NOW, 0)) ?? Number.POSITIVE_INFINITY).toBe(nextDue ?? (await nextLeaseEnd()));
    };
    const nextLeaseEnd = async (): Promise<number> => {
      const held = await jobListsOf(store.statements).list({ states: ['claimed'], order: 'newest', limit: 1, at: NOW });
      return (held[0]?.lease_expires_at ?? Number.POSITIVE_INFINITY) + 1;
    };
    // More of them than are looked at before each name is.
    const property = fc.asyncProperty(fc.array(waiting, { maxLength: 60, size: 'max' }), rules, isSame);
    await fc.assert(property, { numRuns: 150 });
  });

  test('has a full group step aside for others, however many it has in front', async () => {
    const front: Waiting = { name: 'a', priority: 900, runAt: 0, group: 'g', state: 'queued' };
    const { claim } = await open([
      ...Array.from({ length: 50 }, () => front),
      { ...front, name: 'b', group: 'h', priority: 1 },
      { ...front, name: 'a', group: null, priority: 0 },
    ]);
    const selection = toSelection({ wanted: ['a', 'b'], failing: [], groupLimit: 2 });
    expect(await claim(10, selection)).toEqual([1, 2, 51, 52]);
  });

  test.each([70, 700])('passes over what nobody here wants, of %i names', async (count) => {
    const other: Waiting = { name: 'x', priority: 900, runAt: 0, group: null, state: 'queued' };
    const { claim } = await open([
      ...Array.from({ length: count }, (_, n) => ({ ...other, name: `x${n}` })),
      { ...other, name: 'b', priority: 1, runAt: NOW + 1 },
      { ...other, name: 'b', priority: 1, runAt: NOW },
      { ...other, name: 'a', priority: 1, runAt: NOW - 1 },
      { ...other, name: 'a', priority: 2, runAt: NOW },
    ]);
    const selection = toSelection({ wanted: ['a', 'b'], failing: [], groupLimit: null });
    expect(await claim(10, selection)).toEqual([4, 3, 2].map((id) => id + count));
  });
});

describe('a job whose time has come', () => {
  test('is taken then, whoever has added it', async () => {
    const { root, queue, row, clock } = await openTestQueue();
    const later = clock.at + SECOND_MS;
    changeLog(root, `insert into jobs (name, run_at) values ('by SQL', ?)`, later);
    await queue.add('by the API', {}, { runAt: later });
    expect(await queue.claimMany('*', 2)).toEqual([]);
    expect([1, 2].map((id) => row(id).ready)).toEqual([0, 0]);
    clock.at = later;
    expect((await queue.claimMany('*', 2)).map(({ id }) => id)).toEqual([1, 2]);
  });

  test('is taken after those that were due before its retry, however long ago it was added', async () => {
    const { queue, clock } = await openTestQueue();
    await queue.add('tried', {}, { retries: 1, retryDelay: '1h' });
    await queue.fail((await queue.claim()) ?? 0, { mayRetry: true });
    clock.at += HOUR_MS - 1;
    await queue.add('due before');
    clock.at += 1;
    expect((await queue.claimMany('*', 2)).map(({ name }) => name)).toEqual(['due before', 'tried']);
  });

  test('is one of three thousand of as many priorities: the highest ones come first', async () => {
    const { root, queue, clock } = await openTestQueue();
    changeLog(
      root,
      `with recursive n (i) as (select 0 union all select i + 1 from n where i < 2999)
       insert into jobs (name, priority, run_at) select 'a', i * 7919 % 3000, ? + i % 60000 from n`,
      clock.at,
    );
    clock.at += HOUR_MS;
    const taken: number[] = [];
    for (let portion = 0; portion < 3; portion += 1) {
      taken.push(...(await queue.claimMany('*', 1_000)).map(({ priority }) => priority));
    }
    expect(taken).toEqual(Array.from({ length: 3_000 }, (_, n) => 2_999 - n));
  });

  test('is found behind thousands that nobody here wants', async () => {
    const { root, queue, clock } = await openTestQueue();
    changeLog(
      root,
      `with recursive n (i) as (select 0 union all select i + 1 from n where i < 2999)
       insert into jobs (name, run_at) select 'other', ? from n`,
      clock.at - 1,
    );
    const id = await queue.add('mail/a', {}, { runAt: clock.at + 1 });
    clock.at += 1;
    expect(await queue.claim('mail/*')).toMatchObject({ id });
  });

  test('stays due when the clock is set back; what was not due yet waits for its time', async () => {
    const { queue, row, clock } = await openTestQueue();
    const due = await queue.add('due');
    const later = await queue.add('later', {}, { runAt: '+1s' });
    clock.at -= HOUR_MS;
    await queue.finish(await takeNext({ queue }, 'due'));
    expect(row(due).state).toBe('finished');
    expect(await queue.claim()).toBeNull();
    expect(row(later).ready).toBe(0);
    clock.at += HOUR_MS + SECOND_MS;
    expect(await queue.claim()).toMatchObject({ id: later });
  });

  test('waits again once it is given another time', async () => {
    const { queue, row, clock } = await openTestQueue();
    const id = await queue.add('a');
    await queue.update(id, { runAt: '+1h' });
    expect([row(id).ready, await queue.claim()]).toEqual([0, null]);
    await queue.update(id, { runAt: 'now' });
    expect(row(id).ready).toBe(1);
    const job = await queue.claim();
    expect(row(id).ready).toBeNull();
    await queue.retry(job ?? 0, { delay: '1h' });
    expect(row(id)).toMatchObject({ state: 'retrying', ready: 0 });
    clock.at += HOUR_MS;
    expect(await queue.claim()).toMatchObject({ id });
  });
});

test.each(['9223372036854775807', '9007199254740995', '-9007199254740993'])(
  'a priority of %s, which the log refuses, would keep nobody busy for ever',
  async (priority) => {
    const root = makeTemporaryRoot();
    await inRoot(root, 'add', 'later', '--at', '+1h');
    const database = new Sqlite(stateFolderOf(root).database);
    database.pragma('ignore_check_constraints = on');
    const inAnHour = Date.now() + HOUR_MS;
    database.exec(`insert into jobs (name, priority, run_at) values ('a', ${priority}, ${inAnHour})`);
    database.close();
    // One that is kept busy hears no other signal.
    const how = { cwd: root, env: cronEnv(root), timeout: 40_000, killSignal: 'SIGKILL' } as const;
    const claim = spawnSync(process.execPath, [commandPath, 'claim', '--wait', '10ms'], how);
    expect([claim.status, claim.signal]).toEqual([1, null]);
  },
);

/** What that costs among 1,000,000 jobs, `npm run bench -- crowding` shows. */
test('no query of a claim reads more than a few entries of an index', async () => {
  const { root, queue } = await openTestQueue();
  await queue.addMany([
    ...Array.from({ length: 50 }, (_, n) => ({ name: `x${n}`, priority: n % 3 })),
    ...Array.from({ length: 600 }, () => ({ name: 'often' })),
    { name: 'rare', priority: 0, group: 'g' },
    { name: 'later', runAt: '+1h' },
  ]);
  const selection = { ...everything, groupLimit: 1, isWanted: (name: string) => name === 'rare' };
  const plans = await explainQueries(root, async (store) => {
    const worker = await openWorker({ store, clock: { at: Date.now() } });
    await store.claims.next(selection, Date.now());
    expect(await worker.claim(1, { selection })).toMatchObject([{ name: 'rare' }]);
    await store.claims.nextWake(0, 0);
    await store.claims.hasDue(0);
  });
  expect(plans.length).toBeGreaterThan(10);
  for (const plan of plans) {
    // Of the order in which jobs are taken, whose first entries are asked for; of what is claimed, and of the names, all.
    expect(plan).not.toMatch(/SCAN jobs(?! USING (COVERING )?INDEX jobs_(ready|blocked|delayed|claimed))/);
    if (!/jobs_claimed|SCAN wanted/.test(plan)) expect(plan).not.toContain('TEMP B-TREE');
  }
});
