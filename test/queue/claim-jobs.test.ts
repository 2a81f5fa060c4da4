import { expect, test } from 'vitest';
import {
  type ClaimHandlerFacts,
  claimJobs,
  type QueueClaiming,
  type QueueSelection,
} from '../../src/queue/claim/claim.ts';
import { selectPausedPatterns } from '../../src/queue/pauses.ts';
import { matchAny } from '../../src/store/sqlite/queries.ts';
import type { Database } from '../../src/store/store.ts';

import { holdLog } from '../support/hold-log.ts';
import { checkInvariants } from '../support/invariants.ts';
import { queryLog } from '../support/open-log.ts';
import { startNode } from '../support/start-command.ts';
import { openTestQueue, START } from '../support/test-queue.ts';
import { writeLog } from '../support/written-log.ts';

const claimAll = new URL('claim-queued.child.ts', import.meta.url).pathname;

const LEASE_MS = 60_000;
const everything: QueueSelection = {
  groupLimit: null,
  isWanted: () => true,
  isFused: () => false,
};
const outsider: QueueClaiming = {
  workerId: null,
  at: START,
  defaultLeaseMs: LEASE_MS,
  handlerOf: () => null,
};
const claim = (
  db: Database,
  claiming: Partial<QueueClaiming> = {},
  selection = everything,
  count = 1,
) => claimJobs(db, async () => selection, { ...outsider, ...claiming }, count);

const policy = {
  maxAttempts: 4,
  retryDelayMs: 5_000,
  retryFactor: 2,
  retryLongestMs: 99_000,
  onCrash: 'skip',
} as const;
const facts = { policy, timeoutMs: 7_000, contentHash: 'abc', isWarm: true } as ClaimHandlerFacts;

test('a claim of somebody outside: the row, its run, what is told', async () => {
  const { queue, db, row, runs, events } = await openTestQueue();
  const id = await queue.add('mail/a');
  const [claimed] = await claim(db, { at: START + 5 });
  expect(row(id)).toMatchObject({
    state: 'running',
    started_at: START + 5,
    scheduled_for: START,
    run_at: START,
    attempts: 1,
    reserves: 1,
    claimed_by: null,
    claim_token: claimed?.claim.token,
    leased_until: START + 5 + LEASE_MS,
    max_attempts: null,
    retry_delay_ms: null,
  });
  expect(runs(id)).toMatchObject([
    {
      ...{ id: claimed?.claim.runId, worker_id: null, script: 'queue/mail/a', tier: 'queue' },
      ...{ attempt: 1, outcome: 'running', scheduled_for: START, started_at: START + 5 },
      ...{ timeout_ms: null, content_hash: null, pid: null },
    },
  ]);
  expect(events(id)).toEqual(['job-queued', 'job-running']);
  expect(claimed).toMatchObject({ timeoutMs: null, hasEndedChildren: false });
});

test('a claim of a worker takes over what the handler says, where the job says nothing', async () => {
  const { queue, root, row, runs } = await openTestQueue();
  const { db, addPass } = await writeLog(root);
  const workerId = await addPass('hourly', START, { state: 'running' });
  const [plain = 0, own = 0] = await queue.addMany([
    { name: 'a' },
    { name: 'a', retries: 0, retryDelay: '1s', lease: '10s' },
  ]);
  const child = { pid: 4711, startTicks: 12 };
  await claim(db, { workerId, handlerOf: () => facts, child }, everything, 2);
  expect(row(plain)).toMatchObject({
    ...{ claimed_by: workerId, claim_token: `${workerId}:1`, leased_until: START + LEASE_MS },
    ...{ max_attempts: 4, retry_delay_ms: 5_000, retry_factor: 2, retry_longest_ms: 99_000 },
    on_crash: 'skip',
  });
  expect(row(own)).toMatchObject({
    ...{ max_attempts: 1, retry_delay_ms: 1_000, retry_factor: 1, retry_longest_ms: 1_000 },
    leased_until: START + 10_000,
  });
  expect(runs(plain)).toMatchObject([
    { worker_id: workerId, timeout_ms: 7_000, content_hash: 'abc', pid: 4711, pid_start_ticks: 12 },
  ]);
});

test('what the handler said is asked of it at each claim; what the job says stays', async () => {
  const { queue, db, row } = await openTestQueue();
  const ids = await queue.addMany([{ name: 'a' }, { name: 'a', retries: 7, retryDelay: '1s' }]);
  const changed = {
    ...facts,
    policy: { ...policy, maxAttempts: 2, retryDelayMs: 9, retryFactor: 1 },
  };
  for (const each of [facts, changed]) {
    await queue.requeue(ids);
    await claim(db, { handlerOf: () => each }, everything, 2);
  }
  const [own, by] = ids.map(row);
  expect(own).toMatchObject({ max_attempts: 2, retry_delay_ms: 9, retry_factor: 1 });
  expect(by).toMatchObject({ max_attempts: 8, retry_delay_ms: 1_000, retry_longest_ms: 1_000 });
});

test('the lease that is asked for comes before the job’s own', async () => {
  const { queue, db, row } = await openTestQueue();
  const id = await queue.add('a', {}, { lease: '10s' });
  await claim(db, { leaseMs: 3_000 });
  expect(row(id).leased_until).toBe(START + 3_000);
});

test('no claim of a job has a token that another one had', async () => {
  const { queue, root, clock } = await openTestQueue();
  const { db, addPass } = await writeLog(root);
  const workerId = await addPass('hourly', START, { state: 'running' });
  const id = await queue.add('a');
  const tokens = new Set<string>();
  const take = async (claimer: number | null) => {
    const [claimed] = await claim(db, { workerId: claimer, at: clock.at });
    tokens.add(claimed?.claim.token ?? 'none');
    clock.at += 1;
  };
  for (const claimer of [workerId, null]) {
    await take(claimer);
    await queue.requeue([id], { forgetTry: true });
    await take(claimer);
    await queue.bury(id);
    await queue.kick(id);
    await take(claimer);
    await queue.retry(id);
  }
  expect(tokens.size).toBe(6);
});

test('three processes at once take each job exactly once', async () => {
  const { queue, root } = await openTestQueue();
  await queue.addMany(Array.from({ length: 120 }, (_, n) => ({ name: `a/${n % 5}`, runAt: n })));
  const claimers = [1, 2, 3].map(() => startNode([claimAll, root, '3']));
  const claims: { id: number; token: string }[] = [];
  for (const { ended } of claimers) {
    const { status, stdout, stderr } = await ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const own = JSON.parse(stdout) as typeof claims;
    // Each of them in the order in which they are due.
    expect(own.map(({ id }) => id)).toEqual(own.map(({ id }) => id).toSorted((x, y) => x - y));
    claims.push(...own);
  }
  const ids = claims.map(({ id }) => id).toSorted((x, y) => x - y);
  expect(ids).toEqual(Array.from({ length: 120 }, (_, n) => n + 1));
  expect(new Set(claims.map(({ token }) => token)).size).toBe(120);
  checkInvariants(root, { isSettled: false });
});

test('what was paused or fused while a claim waited for the log is not taken', async () => {
  const { queue, db, root, row } = await openTestQueue();
  const [paused = 0, fused = 0, free = 0] = await queue.addMany(
    ['mail/a', 'sms/a', 'export'].map((name) => ({ name })),
  );
  const holder = await holdLog(
    root,
    400,
    `insert into pauses values ('queue/mail/*', 'pause', null, 0), ('queue/sms/*', 'fuse', null, 0)`,
  );
  const select = async (asked: Database): Promise<QueueSelection> => {
    const patterns = await selectPausedPatterns(asked, START);
    return {
      groupLimit: null,
      isWanted: (name) => !matchAny(patterns.paused, name),
      isFused: (name) => matchAny(patterns.fused, name),
    };
  };
  const claimed = await claimJobs(db, select, outsider, 3);
  expect(claimed.map(({ job }) => job.id)).toEqual([free]);
  expect([paused, fused].map((id) => row(id).state)).toEqual(['queued', 'failed']);
  expect((await holder.ended).status).toBe(0);
});

const fusing = (name: string): QueueSelection => ({
  ...everything,
  isFused: (each) => each === name,
});

test('a fuse fails what is due of its name, some at a time, and lets others through', async () => {
  const { queue, db, root, row } = await openTestQueue();
  const bad = Array.from({ length: 700 }, () => ({ name: 'bad' }));
  await queue.addMany([...bad, { name: 'good', priority: 1 }, { name: 'bad', runAt: '+1h' }]);
  const failed = () =>
    queryLog<{ n: number }>(root, `select count(*) as n from jobs where state = 'failed'`)[0]?.n;
  const [good] = await claim(db, {}, fusing('bad'), 5);
  expect([good?.job.name, failed()]).toEqual(['good', 500]);
  expect(await claim(db, {}, fusing('bad'), 5)).toEqual([]);
  expect(failed()).toBe(700);
  expect(row(1)).toMatchObject({
    state: 'failed',
    reason: 'a fuse is set on jobs of its name',
    reserves: 0,
    finished_at: START,
  });
  expect(row(702)).toMatchObject({ name: 'bad', state: 'queued' });
  checkInvariants(root, { isSettled: false });
});

test.each([
  ['child', 'resume', ['queued', 'failed']],
  ['child', 'fail', ['failed', 'failed']],
  ['parent', 'resume', ['failed', 'cancelled']],
] as const)('a fuse on a %s (%s) leaves nobody waiting', async (name, onChildFailure, states) => {
  const { queue, take, db, root, row } = await openTestQueue();
  const parent = await take('parent', { onChildFailure });
  const child = await queue.add('child', {}, { parent: parent.id });
  if (name === 'child') await queue.finish(parent);
  else await queue.retry(parent);
  await claim(db, { at: START + 1 }, fusing(name), 1);
  if (name === 'child' && onChildFailure === 'resume') {
    expect(row(parent.id).state).toBe('running');
  } else expect([parent.id, child].map((id) => row(id).state)).toEqual(states);
  checkInvariants(root, { isSettled: false });
});

test('a claim knows whether there are ended children to be told of', async () => {
  const { queue, take, db } = await openTestQueue();
  const parent = await take('parent');
  await queue.add('child', {}, { parent: parent.id });
  await queue.finish(parent);
  await queue.finish((await queue.claim('child')) ?? 0);
  const [resumed] = await claim(db);
  expect(resumed).toMatchObject({ job: { id: parent.id, attempts: 1 }, hasEndedChildren: true });
});
