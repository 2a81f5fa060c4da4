import { expect, onTestFinished, test } from 'vitest';
import { addJobs } from '../../../src/queue/add/add.ts';
import { ServerSession } from '../../../src/store/server/session.ts';
import type { RunEnding, RunStart } from '../../../src/store/shared/run-rows.ts';
import { metricsOf } from '../../../src/store/statements/monitor/metrics.ts';
import { usualOf } from '../../../src/store/statements/monitor/usual.ts';
import type { NewWorker } from '../../../src/store/statements/workers.ts';
import type { Store } from '../../../src/store/store.ts';
import { engine } from '../../support/engines/engines.ts';
import { makeFinishedRun, queryLog } from '../../support/log.ts';
import { openTestQueue } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';

async function openIn(root: string): Promise<Store> {
  const store = await engine.openStore(makeStateOf(root));
  onTestFinished(() => store.close());
  return store;
}

/** Two connections of one process to a file would wait for each other: there, one comes after the other. */
async function atOnce<T>(stores: readonly Store[], work: (store: Store) => Promise<T>): Promise<T[]> {
  if (stores.every(({ fleet }) => fleet !== null)) return await Promise.all(stores.map(work));
  const done: T[] = [];
  for (const store of stores) done.push(await work(store));
  return done;
}

const AT = Date.UTC(2026, 10, 1, 12);

function makeWorker(tier: string | null, more: Partial<NewWorker> = {}): NewWorker {
  return {
    ...{ kind: tier === null ? 'queue' : 'tier', tier, host: 'web-1', bootId: null, pid: 1, startTicks: null },
    ...{ trigger: 'cron', scheduledFor: AT, startedAt: AT, runnerVersion: '1.0.0', nodeVersion: '24.0.0', ...more },
  };
}

const makeStart = (jobId: number, more: Partial<RunStart> = {}): RunStart => ({
  ...{ jobId, workerId: null, key: null, script: 'hourly/a', contentHash: 'ab', attempt: 1 },
  ...{ scheduledFor: AT, startedAt: AT, timeoutMs: null, ...more },
});

const makeEnd = (start: RunStart, end: Partial<RunEnding['end']> = {}): RunEnding => ({
  ...{ ...start, runId: null, leftJob: null },
  end: makeFinishedRun({ finished_at: AT + 5, ...end }),
});

async function addScript(store: Store, name = 'hourly/a'): Promise<number> {
  const script = { name, tier: 'hourly', scheduledFor: AT, at: AT };
  return (await store.transaction(({ scriptJobs }) => scriptJobs.enqueue([script])))[0] as number;
}

const endRuns = (store: Store, runs: readonly RunEnding[]): Promise<number[]> =>
  store.transaction((session) => session.runs.end(runs));

test('names are told apart by each of their bytes', async () => {
  const store = await openIn(makeTemporaryRoot());
  const names = ['A', 'a', 'a ', 'á', 'ä'];
  for (const name of names) await store.pauses.set({ name, kind: 'pause', until: null, createdAt: AT, by: null });
  expect((await store.pauses.inForce(AT)).map(({ name }) => name)).toEqual(names);
  const scripts = names.map((name) => `hourly/${name}`);
  const ids: number[] = [];
  for (const name of scripts) ids.push(await addScript(store, name));
  await endRuns(
    store,
    ids.map((id, index) => makeEnd(makeStart(id, { script: scripts[index] as string }), { duration_us: index * 1000 })),
  );
  for (const [index, script] of scripts.entries())
    expect(await usualOf(store.statements).figures(script)).toMatchObject({ runs: 1, durationMs: index });
  expect((await store.pauses.remove('a')).map(({ name }) => name)).toEqual(['a']);
  expect(await store.pauses.inForce(AT)).toHaveLength(names.length - 1);
});

test('workers of the queue that start at the same moment keep to their limit on each machine of a fleet', async () => {
  const root = makeTemporaryRoot();
  const stores = await Promise.all(Array.from({ length: 6 }, () => openIn(root)));
  const beginOn = (host: string) => (store: Store) =>
    store.transaction(({ workers }) => workers.startOneOf(makeWorker(null, { host }), 2));
  const begun = await atOnce(stores, beginOn('web-1'));
  const refused = begun.filter((each) => 'living' in each);
  expect(refused).toEqual(Array(4).fill({ living: 2 }));
  const [store] = stores as [Store];
  const elsewhere = await beginOn('web-2')(store);
  expect(elsewhere).toEqual(store.fleet === null ? { living: 2 } : { id: expect.any(Number) });
});

test('two sessions that first see a script, its content and a host in the same moment write each down once', async () => {
  const root = makeTemporaryRoot();
  const stores = [await openIn(root), await openIn(root)];
  const job = await addScript(stores[0] as Store);
  await atOnce(stores, (store) =>
    store.transaction(async ({ workers, runs }) => {
      const workerId = await workers.start(makeWorker(null));
      return await runs.end([makeEnd(makeStart(job, { workerId }))]);
    }),
  );
  const count = (table: string) =>
    queryLog<{ rows_: number }>(root, `select count(*) as rows_ from ${table}`)[0]?.rows_;
  expect(['hosts', 'scripts', 'script_versions', 'workers', 'runs'].map(count)).toEqual([1, 1, 1, 2, 2]);
});

test('one of two passes of a tier that start at the same moment on one machine begins', async () => {
  const root = makeTemporaryRoot();
  const stores = [await openIn(root), await openIn(root)];
  const begin = (store: Store, host: string): Promise<number | null> =>
    store.transaction(async ({ workers }) => {
      const others = await workers.running('hourly', host);
      // Another version of Node is another row of hosts.
      const nodeVersion = `24.0.${stores.indexOf(store)}`;
      return others.length > 0 ? null : await workers.start(makeWorker('hourly', { host, nodeVersion }));
    });
  const begun = await atOnce(stores, (store) => begin(store, 'web-1'));
  expect(begun.filter((id) => id !== null)).toHaveLength(1);
  expect(await (stores[0] as Store).workers.running('hourly')).toHaveLength(1);
});

/** How many statements a server is asked meanwhile. */
async function countAsked(work: () => Promise<unknown>): Promise<number> {
  const { all } = ServerSession.prototype;
  let asked = 0;
  ServerSession.prototype.all = function count(this: ServerSession, ...values: Parameters<typeof all>) {
    asked += 1;
    return all.apply(this, values);
  } as typeof all;
  try {
    await work();
    return asked;
  } finally {
    ServerSession.prototype.all = all;
  }
}

test('one claim puts jobs of full groups aside as sets, and the next ones ask as little as without them', async () => {
  const { queue } = await openTestQueue({ groupLimit: 1 });
  const askedByClaim = async (group: string): Promise<number> => {
    const id = await queue.add('x', {}, { group });
    let claimed: { readonly id: number } | null = null;
    const asked = await countAsked(async () => {
      claimed = await queue.claim('*');
    });
    expect(claimed).toMatchObject({ id });
    return asked;
  };
  await askedByClaim('a');
  await askedByClaim('b');
  const alone = await askedByClaim('c');
  await queue.addMany(['a', 'b'].flatMap((group) => Array.from({ length: 500 }, () => ({ name: 'x', group }))));
  expect(await askedByClaim('d')).toBeLessThan(alone + 25);
  // On MySQL both of its looks take a trip for each group, and one for their end.
  expect(await askedByClaim('e')).toBe(alone + (engine.name === 'mysql' ? 5 : 0));
});

test('a search for dead workers finds those of its machine, and asks no more questions for the claims of a large fleet', async () => {
  const store = await openIn(makeTemporaryRoot());
  const begin = (host: string) => store.transaction(({ workers }) => workers.start(makeWorker(null, { host })));
  const [mine, other, silent] = [await begin('web-1'), await begin('web-2'), await begin('web-3')];
  await store.workers.heartbeat(other, AT + 60_000);
  await store.workers.heartbeat(silent, AT - 1);
  const seen = { host: 'web-1', at: AT };
  // One file is of one machine.
  const here = store.fleet === null ? [mine, other, silent] : [mine, silent];
  expect((await store.workers.suspects(seen)).map(({ id }) => id)).toEqual(here);
  expect((await store.workers.suspects()).map(({ id }) => id)).toEqual([mine, other, silent]);

  const look = async () => [await store.workers.suspects(seen), await store.claims.ofEndedWorkers()];
  const claim = async (count: number, workerId: number): Promise<void> => {
    const jobs = Array.from({ length: count }, (_, index) => ({ name: `a/${workerId}/${index}` }));
    const ids = (await store.transaction((session) => addJobs(session, jobs, AT))).map(({ id }) => id);
    await store.transaction((session) =>
      session.jobs.change(
        ids.map((id) => ({ id, set: { state: 'claimed' as const, claim_token: `${workerId}.${id}` } })),
        AT,
      ),
    );
  };
  await claim(1, other);
  const ofOne = await countAsked(look);
  await claim(100, other);
  expect(await countAsked(look)).toBe(ofOne);
  await claim(100, silent);
  expect(await store.claims.ofEndedWorkers()).toEqual([]);
  await store.workers.end(silent, { state: 'crashed', at: AT, reason: null });
  expect(await store.claims.ofEndedWorkers()).toHaveLength(100);
  expect(await store.claims.ofWorkers()).toHaveLength(201);
  expect(await countAsked(look)).toBeLessThan(ofOne + 5);
});

test('a name whose transaction was rolled back is written again', async () => {
  const root = makeTemporaryRoot();
  const store = await openIn(root);
  const job = await addScript(store);
  const undone = store.transaction(async ({ runs, workers }) => {
    await workers.start(makeWorker('hourly'));
    await runs.end([makeEnd(makeStart(job))]);
    throw new Error('undone');
  });
  await expect(undone).rejects.toThrow('undone');
  await endRuns(store, [makeEnd(makeStart(job))]);
  expect(await store.workers.running()).toEqual([]);
  const runs = queryLog(root, 'select name from runs join scripts on scripts.id = script_id');
  expect(runs).toEqual([{ name: 'hourly/a' }]);
});

test('hundreds of runs with all that they have printed are written in one go, each as it was', async () => {
  const root = makeTemporaryRoot();
  const store = await openIn(root);
  const job = await addScript(store);
  const outputOf = (index: number): string => `${index} it's "${'é\\\n🙂?'.repeat(index * 20)}`;
  const outcomeOf = (index: number) => (index % 2 === 0 ? 'succeeded' : 'crashed');
  const lasting = { pid: 7, startTicks: null, maxRssBytes: null };
  const [goesOn] = await store.transaction(({ runs }) => runs.start([{ ...makeStart(job), ...lasting }]));
  const all = Array.from({ length: 600 }, (_, index): RunEnding => {
    const end = { outcome: outcomeOf(index), output: outputOf(index), counts: { rows: index } } as const;
    const run = makeEnd(makeStart(job, { attempt: index + 1 }), end);
    return index === 300 ? { ...run, runId: goesOn as number } : run;
  });
  const ids = await endRuns(store, all);
  expect(ids[300]).toBe(goesOn);
  expect(new Set(ids).size).toBe(600);
  const rows = queryLog<{ id: number; outcome: string; output: string; value: number }>(
    root,
    `select runs.id as id, outcome, outputs.output as output, value from runs join outputs on outputs.run_id = runs.id
     join counts on counts.run_id = runs.id`,
  );
  const byId = new Map(rows.map(({ id, ...row }) => [id, row]));
  expect(byId.size).toBe(600);
  for (const [index, id] of ids.entries()) {
    expect(byId.get(id)).toEqual({ outcome: outcomeOf(index), output: outputOf(index), value: index });
  }
});

test('a run whose row has gone with its job keeps nothing of what it printed', async () => {
  const root = makeTemporaryRoot();
  const store = await openIn(root);
  const job = await addScript(store);
  const [runId] = await endRuns(store, [makeEnd(makeStart(job), { output: null })]);
  const ref = { runId: runId as number, jobId: job };
  const late = makeFinishedRun({ output: 'late', output_bytes: 4 });
  await store.transaction(({ runs }) => runs.addOutput({ ...ref, jobId: job + 1 }, late));
  expect(queryLog(root, 'select output from outputs')).toEqual([]);
  await store.transaction(({ runs }) => runs.addOutput(ref, late));
  await store.transaction(({ runs }) => runs.addOutput(ref, makeFinishedRun({ output: 'later' })));
  expect(queryLog(root, 'select output from outputs')).toEqual([{ output: 'late' }]);
});

test('a run that was told late is counted in the hour that was closed before', async () => {
  const root = makeTemporaryRoot();
  const store = await openIn(root);
  const job = await addScript(store);
  await store.transaction(({ statements }) => metricsOf(statements).setCountedUntil(AT + 3_600_000));
  await endRuns(store, [
    makeEnd(makeStart(job)),
    makeEnd(makeStart(job, { startedAt: AT + 3_600_000 }), { finished_at: AT + 3_600_001 }),
    makeEnd(makeStart(job, { startedAt: AT + 1 }), { finished_at: AT + 3_600_000 }),
  ]);
  await store.transaction(({ events }) => events.record([{ at: AT, event: 'job-failed', jobId: job }]));
  const late = queryLog(
    root,
    `select what, started_at, finished_at, counts_start, counts_end from uncounted order by what, counts_end`,
  );
  expect(late).toEqual([
    { what: 'failed', started_at: null, finished_at: AT, counts_start: 0, counts_end: 1 },
    { what: 'run', started_at: AT + 1, finished_at: AT + 3_600_000, counts_start: 1, counts_end: 0 },
    { what: 'run', started_at: AT, finished_at: AT + 5, counts_start: 1, counts_end: 1 },
  ]);
});
