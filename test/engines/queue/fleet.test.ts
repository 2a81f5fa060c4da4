import { expect, onTestFinished, test } from 'vitest';
import { beginRun } from '../../../src/queue/claim/claim.ts';
import type { JobRow } from '../../../src/store/schema.ts';
import { type CopiesOf, machinesOf } from '../../../src/store/statements/registers.ts';
import type { NewScriptJob } from '../../../src/store/statements/script-jobs.ts';
import type { NewWorker } from '../../../src/store/statements/workers.ts';
import type { Store } from '../../../src/store/store.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { engine } from '../../support/engines/engines.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const HOUR_MS = 3_600_000;
const SLOT = Date.UTC(2026, 10, 1, 12);

async function open(): Promise<Store> {
  const root = makeTemporaryRoot();
  const state = stateFolderOf(root);
  createStateFolder(state);
  const store = await engine.openStore(state);
  onTestFinished(() => store.close());
  return store;
}

const jobs = (names: readonly string[], slot: number, more: Partial<NewScriptJob> = {}): NewScriptJob[] =>
  names.map((name) => ({ name, tier: 'hourly', scheduledFor: slot, at: slot + 1_000, ...more }));

async function endAll(store: Store): Promise<void> {
  const open = await store.scriptJobs.open('hourly');
  await store.transaction((session) =>
    session.jobs.change(
      open.map(({ id }) => ({ id, set: { state: 'finished', finished_at: SLOT + 2_000, claim_token: null } })),
      SLOT,
    ),
  );
}

test('a script is queued once for each slot, whoever asks and however often', async () => {
  const store = await open();
  const [a] = await store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT));
  expect(a).toEqual(expect.any(Number));
  const whileOpen = await store.scriptJobs.enqueueOnce(jobs(['hourly/a', 'hourly/b'], SLOT + HOUR_MS));
  expect(whileOpen).toEqual([null, expect.any(Number)]);
  await endAll(store);
  expect(await store.scriptJobs.enqueueOnce(jobs(['hourly/a', 'hourly/b'], SLOT))).toEqual([null, null]);
  const next = await store.transaction(({ scriptJobs }) =>
    scriptJobs.enqueueOnce(jobs(['hourly/a', 'hourly/b'], SLOT + HOUR_MS)),
  );
  expect(next).toEqual([a, null]);
});

test('by hand it is queued again for the same slot, unless it is open', async () => {
  const store = await open();
  const [a] = await store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT));
  const again = () => store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT, { isAgain: true, scheduledFor: null }));
  expect(await again()).toEqual([null]);
  await endAll(store);
  expect(await again()).toEqual([a]);
  expect(await store.scriptJobs.open('hourly')).toMatchObject([{ id: a, scheduled_for: SLOT }]);
});

test('what has run elsewhere since it was seen is not claimed', async () => {
  const store = await open();
  const id = await store.workers.start(worker('web-1'));
  await store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT));
  const [job] = await store.scriptJobs.open('hourly');
  const { id: jobId, attempts, scheduled_for } = job as JobRow;
  const claim = (number: number, seen: Partial<JobRow>) =>
    store.transaction(({ scriptJobs }) =>
      scriptJobs.claim([
        {
          ...{ id: jobId, token: `${id}.${number}`, state: 'claimed', at: SLOT },
          seen: { attempts, scheduled_for, ...seen },
        },
      ]),
    );
  expect(await claim(1, { attempts: 1 })).toEqual([]);
  expect(await claim(2, { scheduled_for: SLOT - HOUR_MS })).toEqual([]);
  expect(await claim(3, { scheduled_for: null })).toEqual([]);
  expect(await claim(4, {})).toEqual([jobId]);
});

test('a run that is begun twice by the same claim has begun once', async () => {
  const store = await open();
  const workerId = await store.workers.start(worker('web-1'));
  const [id] = await store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT));
  const claim = { id: id as number, token: `${workerId}.1` };
  await store.transaction(({ scriptJobs }) => scriptJobs.claim([{ ...claim, state: 'claimed', at: SLOT }]));
  const run = {
    ...{ jobId: claim.id, workerId, key: claim.token, script: 'hourly/a', contentHash: null, attempt: 1 },
    ...{ scheduledFor: SLOT, startedAt: SLOT, timeoutMs: null, pid: null, startTicks: null, maxRssBytes: null },
  };
  const begin = (token: string) => store.transaction((session) => beginRun(session, { ...claim, token }, run));
  const runId = await begin(claim.token);
  expect(runId).toEqual(expect.any(Number));
  expect(await begin(claim.token)).toBe(runId);
  expect(await begin(`${workerId}.2`)).toBeNull();
  expect(await store.scriptJobs.open('hourly')).toMatchObject([{ state: 'running', attempts: 1 }]);
});

test('a slot that a wrong clock has set does not keep a script from running', async () => {
  const store = await open();
  const [a] = await store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT + 40 * HOUR_MS));
  await endAll(store);
  expect(await store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT))).toEqual([a]);
});

test('a script for every host has a row for each', async () => {
  const store = await open();
  const ids = await Promise.all(
    ['web-1', 'web-2', null].map((host) => store.scriptJobs.enqueueOnce(jobs(['hourly/a'], SLOT, { host }))),
  );
  expect(new Set(ids.flat()).size).toBe(3);
  expect((await store.scriptJobs.open('hourly')).map(({ host }) => `${host}`).toSorted()).toEqual([
    'null',
    'web-1',
    'web-2',
  ]);
});

const worker = (host: string, more: Partial<NewWorker> = {}): NewWorker => ({
  ...{ kind: 'tier', tier: 'hourly', host, bootId: null, pid: 1, startTicks: null, trigger: 'cron' },
  ...{ scheduledFor: SLOT, startedAt: SLOT, runnerVersion: '1.0.0', nodeVersion: 'v24.0.0' },
  ...{ leaseExpiresAt: SLOT + 60_000, ...more },
});

test('a worker renews its lease until somebody has ended it', async () => {
  const store = await open();
  const id = await store.workers.start(worker('web-1'));
  expect(await store.workers.heartbeat(id, SLOT + 90_000)).toBe(true);
  expect((await store.workers.byId([id]))[0]).toMatchObject({ host: 'web-1', lease_expires_at: SLOT + 90_000 });
  await store.workers.end(id, { state: 'crashed', at: SLOT, reason: 'no sign of life' });
  expect(await store.workers.heartbeat(id, SLOT + 120_000)).toBe(false);
  expect((await store.workers.byId([id]))[0]).toMatchObject({ lease_expires_at: SLOT + 90_000 });
  await store.workers.extendLease(id, SLOT + 600_000);
  expect((await store.workers.byId([id]))[0]).toMatchObject({ state: 'crashed', lease_expires_at: SLOT + 600_000 });
});

test('workers are told apart by tier and by host', async () => {
  const store = await open();
  const hourly = await store.workers.start(worker('web-1'));
  const queue = await store.workers.start(worker('web-2', { kind: 'queue', tier: null, startedAt: SLOT + 1 }));
  const ids = async (...of: Parameters<Store['workers']['running']>) =>
    (await store.workers.running(...of)).map(({ id }) => id);
  expect(await ids()).toEqual([hourly, queue]);
  expect(await ids('hourly', 'web-1')).toEqual([hourly]);
  expect(await ids('hourly', 'web-2')).toEqual([]);
  expect(await ids(undefined, 'web-2')).toEqual([queue]);
});

test('of another machine there may be something to rescue once its lease has expired, or its worker has ended', async () => {
  const store = await open();
  const look = (host: string, at = SLOT) => store.workers.hasOpen(at, { host, at });
  const id = await store.workers.start(worker('web-1'));
  expect([await look('web-1'), await look('web-2'), await look('web-2', SLOT + 60_001)]).toEqual([true, false, true]);
  const [jobId = 0] = await store.scriptJobs.enqueue(jobs(['hourly/a'], SLOT));
  const claim = { id: jobId, token: `${id}.1`, state: 'claimed' as const, at: SLOT };
  await store.transaction((session) => session.scriptJobs.claim([claim]));
  expect(await look('web-2')).toBe(false);
  await store.workers.end(id, { state: 'crashed', at: SLOT, reason: null });
  expect(await look('web-2')).toBe(true);
});

test('machines, and what they have, are known by their last word', async () => {
  const machines = machinesOf((await open()).statements);
  const web = { host: 'web-1', seenAt: SLOT, clockOffsetMs: -1_200, runnerVersion: '1.0.0' };
  await machines.note({ ...web, host: 'web-2' });
  await machines.note(web);
  await machines.note({ ...web, seenAt: SLOT + 1 });
  expect(await machines.list()).toEqual([
    { ...web, seenAt: SLOT + 1 },
    { ...web, host: 'web-2' },
  ]);
  const a = { name: 'hourly/a', contentHash: 'aa', hostPattern: null };
  const b = { name: 'hourly/b', contentHash: null, hostPattern: 'web-*' };
  await machines.noteCopies('web-1', 'hourly', [a, b]);
  await machines.noteCopies('web-2', 'hourly', [a]);
  await machines.noteCopies('web-1', 'daily', []);
  await machines.noteCopies('web-1', 'hourly', [{ ...a, contentHash: 'ab' }]);
  expect(await machines.copies()).toEqual([
    { ...a, host: 'web-1', tier: 'hourly', contentHash: 'ab' },
    { ...a, host: 'web-2', tier: 'hourly' },
  ]);
});

test('copies are asked for by script, and by when their machine was seen', async () => {
  const machines = machinesOf((await open()).statements);
  const script = (name: string) => ({ name, contentHash: null, hostPattern: null });
  for (const [host, seenAt] of [
    ['web-1', SLOT],
    ['web-2', SLOT + 1],
  ] as const) {
    await machines.note({ host, seenAt, clockOffsetMs: 0, runnerVersion: '1.0.0' });
    await machines.noteCopies(host, 'hourly', [script('hourly/a'), script(`hourly/of-${host}`)]);
  }
  // Of a machine that was never seen, nothing is known.
  await machines.noteCopies('web-3', 'hourly', [script('hourly/a')]);
  const found = async (of?: CopiesOf) => (await machines.copies(of)).map(({ host, name }) => `${host} ${name}`);
  const all = ['web-1 hourly/a', 'web-2 hourly/a', 'web-1 hourly/of-web-1', 'web-2 hourly/of-web-2'];
  expect(await found()).toEqual(all);
  expect(await found({ names: ['hourly/of-web-1', 'hourly/a', 'hourly/gone'] })).toEqual(all.slice(0, 3));
  expect(await found({ names: [] })).toEqual([]);
  expect(await found({ seenAfter: SLOT })).toEqual(all.filter((copy) => copy.startsWith('web-2')));
  expect(await found({ seenAfter: SLOT, names: ['hourly/a'] })).toEqual(['web-2 hourly/a']);
});

test('a machine that is forgotten takes with it what it had, and no other machine’s', async () => {
  const { statements, chores, transaction } = await open();
  const machines = machinesOf(statements);
  const hosts = ['web-1', 'web-10', 'web-2'];
  const choresOf = (host: string) => [`checks ${host}`, `boot ${host} 1234`];
  for (const [index, host] of hosts.entries()) {
    await machines.note({ host, seenAt: SLOT + index, clockOffsetMs: 0, runnerVersion: '1.0.0' });
    await machines.noteCopies(host, 'hourly', [{ name: 'hourly/a', contentHash: 'aa', hostPattern: null }]);
    for (const name of choresOf(host)) await chores.setDone(name, SLOT);
  }
  const prune = (before: number, limit: number) =>
    transaction((session) => machinesOf(session.statements).forget(before, limit));
  expect(await prune(SLOT, 10)).toBe(0);
  expect(await prune(SLOT + 2, 1)).toBe(1);
  const left = async () => ({
    machines: (await machines.list()).map(({ host }) => host),
    copies: (await machines.copies()).map(({ host }) => host),
  });
  expect(await left()).toEqual({ machines: ['web-10', 'web-2'], copies: ['web-10', 'web-2'] });
  for (const host of hosts) {
    expect(await Promise.all(choresOf(host).map((name) => chores.doneAt(name)))).toEqual(
      Array(2).fill(host === 'web-1' ? null : SLOT),
    );
  }
  // It comes back as a new one.
  await machines.note({ host: 'web-1', seenAt: SLOT + 3, clockOffsetMs: 0, runnerVersion: '1.0.0' });
  expect(await left()).toEqual({ machines: ['web-1', 'web-10', 'web-2'], copies: ['web-10', 'web-2'] });
});
