import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { claimJobs, type QueueSelection, selectionOf } from '../../../src/queue/claim/claim.ts';
import { readAnswers, startNode } from '../../support/command.ts';
import { engine } from '../../support/engines/engines.ts';
import { holdLog } from '../../support/faults/faults.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { changeLog, queryLog, testOfSqlite } from '../../support/log.ts';
import { openTestQueue, START, type TestQueue } from '../../support/queue.ts';
import { everything, LEASE_MS, openWorker } from './worker-claims.ts';

const child = new URL('claim.child.ts', import.meta.url).pathname;

const nothingBegun = { attempts: 0, started_at: null } as const;

test('a claim of somebody outside: the row, its run, what is told', async () => {
  const { queue, clock, row, runs, events } = await openTestQueue();
  const id = await queue.add('mail/a?user=7');
  clock.at += 5;
  const claimed = await queue.claim();
  expect(row(id)).toMatchObject({
    ...{ state: 'running', started_at: START + 5, scheduled_for: null, run_at: START },
    ...{ attempts: 1, claim_token: claimed?.token, lease_expires_at: START + 5 + LEASE_MS },
    ...{ retry: null, lease_extended: 0, ready: null },
  });
  // A dot is only in the token of a worker.
  expect(claimed?.token).toMatch(/^[0-9a-f-]{36}$/);
  expect(runs(id)).toMatchObject([
    {
      ...{ worker_id: null, key: null, script: 'queue/mail/a', attempt: 1, outcome: 'running' },
      ...{ scheduled_for: null, started_at: START + 5, timeout_ms: null, content_hash: null },
      ...{ pid: null, finished_at: null, output: null },
    },
  ]);
  expect(events(id)).toEqual(['job-queued', 'run-started']);
});

test('a job that only plain SQL can have written so fails before its first try, on each engine', async () => {
  const { queue, store, row, runs } = await openTestQueue();
  const [id] = await queue.addMany([{ name: 'a' }]);
  const [plain] = await store.transaction(({ jobs }) => jobs.wholeById([id as number]));
  const wrong = [
    // SQLite's table refuses seconds by itself.
    engine.name === 'sqlite' ? { retry: '101' } : { run_at: Math.trunc(START / 1000) },
    { retry: 'often' },
    { unique_key: '' },
    { concurrency_key: 'g'.repeat(256) },
  ];
  const { id: _, ...columns } = plain as NonNullable<typeof plain>;
  const ids = await store.transaction(({ jobs }) =>
    jobs.add(
      wrong.map((values) => ({ ...columns, ...values })),
      START,
    ),
  );
  expect((await queue.claimMany('*', 9)).map((claimed) => claimed.id)).toEqual([id]);
  const reasons = ids.map((each) => row(each).reason);
  expect(reasons).toEqual([
    engine.name === 'sqlite'
      ? expect.stringMatching(/^its retry must be /)
      : expect.stringMatching(/^its run_at must be milliseconds since 1970 such as \d{13}, not seconds, found \d{10}$/),
    expect.stringMatching(/^its retry must be /),
    expect.stringMatching(/^its unique_key must be text of 1 to 255 whole characters, found ""$/),
    expect.stringMatching(/^its concurrency_key must be /),
  ]);
  expect(ids.map((each) => [row(each).state, runs(each).length])).toEqual(Array(4).fill(['failed', 0]));
});

// SQLite's table takes no such data.
test.skipIf(engine.name === 'sqlite')(
  'data that no entry but plain SQL takes fails its job before the first try',
  async () => {
    const { queue, store, row, runs } = await openTestQueue();
    const [id] = await queue.addMany([{ name: 'a' }]);
    const [plain] = await store.transaction(({ jobs }) => jobs.wholeById([id as number]));
    const { id: _, ...columns } = plain as NonNullable<typeof plain>;
    // PostgreSQL's own check takes nothing that is no JSON.
    const noJson = engine.name === 'mysql' ? ['', '{"to":', '{} {}', 'none'] : [];
    const datas = [`"${'ä'.repeat(2 ** 19)}"`, '['.repeat(1001) + ']'.repeat(1001), ...noJson];
    const ids: number[] = [];
    for (const data of datas) {
      ids.push(...(await store.transaction(({ jobs }) => jobs.add([{ ...columns, data }], START))));
    }
    expect((await queue.claimMany('*', 9)).map((claimed) => claimed.id)).toEqual([id]);
    expect(ids.map((each) => row(each).reason)).toEqual([
      expect.stringMatching(/^its data must be JSON of at most 1 MiB, found 1048578 bytes; put large data into a file/),
      'its data must be JSON nested at most 1000 deep',
      ...noJson.map((data) => `its data must be JSON, found ${JSON.stringify(data)}`),
    ]);
    expect(ids.map((each) => [row(each).state, runs(each).length])).toEqual(Array(ids.length).fill(['failed', 0]));
  },
);

describe('a claim of a worker', () => {
  async function open() {
    const log = await openTestQueue();
    const id = await log.queue.add('mail/a', {}, { lease: '10s' });
    const worker = await openWorker(log);
    return { ...log, id, worker, job: await worker.claimOne() };
  }

  test('begins nothing: no try counts, and no run is there', async () => {
    const { id, worker, row, runs, events } = await open();
    expect(row(id)).toMatchObject({
      ...{ state: 'claimed', ...nothingBegun, claim_token: `${worker.workerId}.1` },
      ...{ lease_expires_at: START + 10_000, ready: null },
    });
    expect([runs(id), events(id)]).toEqual([[], ['job-queued']]);
  });

  test('is a run once that has lasted a moment', async () => {
    const { id, worker, job, row, runs, events, clock, root } = await open();
    clock.at += 100;
    await worker.begin(job);
    expect(row(id)).toMatchObject({ state: 'running', attempts: 1, started_at: START + 100 });
    const begun = { key: `${worker.workerId}.1`, outcome: 'running', attempt: 1 };
    expect(runs(id)).toMatchObject([{ ...begun, started_at: START + 100 }]);
    await worker.settle(job);
    expect(runs(id)).toMatchObject([{ ...begun, outcome: 'succeeded', output: 'hi\n' }]);
    expect(events(id)).toEqual(['job-queued', 'run-started', 'job-finished']);
    checkInvariants(root, { isSettled: false });
  });

  test('that ends at once leaves one row, and the same story', async () => {
    const { id, worker, job, row, runs, events, clock, root } = await open();
    clock.at += 5;
    await worker.settle(job);
    expect(row(id)).toMatchObject({ state: 'finished', attempts: 1, started_at: START + 5 });
    expect(runs(id)).toMatchObject([{ outcome: 'succeeded', attempt: 1, key: job.claim_token }]);
    expect(events(id)).toEqual(['job-queued', 'run-started', 'job-finished']);
    checkInvariants(root, { isSettled: false });
  });

  test('that is released leaves the job as it was, in its turn', async () => {
    const { id, worker, job, row, runs, events, queue } = await open();
    const later = await queue.add('mail/b');
    await worker.release(job);
    expect(row(id)).toMatchObject({
      ...{ state: 'queued', ...nothingBegun, claim_token: null, lease_expires_at: null, ready: 1 },
      ...{ run_at: START, reason: null },
    });
    expect([runs(id), events(id)]).toEqual([[], ['job-queued']]);
    expect((await queue.claimMany('*', 2)).map((each) => each.id)).toEqual([id, later]);
  });

  test('that is released after a failed try waits as after that', async () => {
    const { id, worker, job, row, clock } = await open();
    await worker.settle(job, { outcome: 'released', reason: 'later' }, { decision: { kind: 'retry', delayMs: 50 } });
    clock.at += 50;
    const again = await worker.claimOne();
    await worker.settle(again, { outcome: 'crashed', reason: 'it died' });
    clock.at += LEASE_MS;
    const before = row(id);
    await worker.release(await worker.claimOne());
    expect(row(id)).toEqual({ ...before, ready: 1 });
    expect(row(id)).toMatchObject({ state: 'retrying', attempts: 1, reason: 'it died' });
  });

  test('cannot be released once it has begun, nor by who had it before', async () => {
    const { id, worker, job, row, queue } = await open();
    await worker.begin(job);
    const begun = row(id);
    await worker.release(job);
    expect(row(id)).toEqual(begun);
    await queue.requeue([id]);
    expect(await worker.claim(1)).toEqual([]);
    await worker.settle(job);
    const again = await worker.claimOne();
    const claimed = row(id);
    await worker.release(job);
    expect(row(id)).toEqual(claimed);
    await worker.release(again);
    expect(row(id)).toMatchObject({ state: 'retrying', attempts: 1, claim_token: null });
  });

  test.each([
    ['waits for it', 'queued'],
    ['is cancelled', 'cancelled'],
    ['is gone', 'cancelled'],
  ])('of a child that is released while its parent %s', async (what, state) => {
    const log = await openTestQueue();
    const { queue, take, root, row } = log;
    const parent = await take('parent');
    const kid = await queue.add('child', {}, { parent: parent.id });
    await queue.finish(parent);
    const worker = await openWorker(log);
    const job = await worker.claimOne();
    if (what !== 'waits for it') await queue.cancel(parent.id);
    if (what === 'is gone') changeLog(root, 'delete from jobs where id = ?', parent.id);
    await worker.release(job);
    expect(row(kid)).toMatchObject({ state, claim_token: null, attempts: 0 });
    checkInvariants(root, { isSettled: false, isPruned: what === 'is gone' });
  });

  test('knows whether there are ended children to be told of', async () => {
    const { queue, take, store, clock } = await openTestQueue();
    const parent = await take('parent');
    await queue.add('child', {}, { parent: parent.id });
    await queue.finish(parent);
    await queue.finish((await queue.claim('child')) ?? 0);
    const worker = await openWorker({ store, clock });
    const resumed = await worker.claimOne();
    expect(resumed).toMatchObject({ id: parent.id, attempts: 0, has_unreported_children: true });
    await worker.settle(resumed);
    expect(await queue.get(parent.id)).toMatchObject({ state: 'finished', attempts: 1 });
  });
});

/** A job that a worker has claimed and not begun. */
async function openClaimed() {
  const log = await openTestQueue();
  const id = await log.queue.add('mail/a');
  const worker = await openWorker(log);
  return { ...log, id, worker, job: await worker.claimOne() };
}

type Claimed = Awaited<ReturnType<typeof openClaimed>>;

const verbs = {
  cancel: ({ queue, id }) => queue.cancel(id),
  bury: ({ queue, id }) => queue.bury(id),
  delete: ({ queue, id }) => queue.delete(id),
  requeue: ({ queue, id }) => queue.requeue([id]),
  update: ({ queue, id }) => queue.update(id, { data: 7 }),
  touch: ({ queue, id }) => queue.touch(id),
  fail: ({ queue, id }) => queue.fail(id),
  /** It has one try. */
  retry: ({ queue, id }) => queue.fail(id, { mayRetry: true }),
  kick: ({ queue, id }) => queue.kick(id),
} as const satisfies Record<string, (claimed: Claimed) => Promise<unknown>>;

type Verb = keyof typeof verbs;

/** What the job is then, or why not. */
async function outcomeOf(claimed: Claimed, verb: Verb): Promise<string> {
  const refusal = await verbs[verb](claimed).then(
    () => null,
    (error: Error) => error.message,
  );
  return refusal ?? claimed.row(claimed.id)?.state ?? 'gone';
}

const running = (words: string) => expect.stringContaining(`is running, and only a ${words}`);

describe('what somebody else wants of a job that is claimed', () => {
  test.each<[Verb, unknown]>([
    ['cancel', 'cancelled'],
    ['bury', 'failed'],
    ['delete', 'gone'],
    ['requeue', 'queued'],
    ['update', 'queued'],
    ['touch', expect.stringContaining('is queued, and only a running job can be touched')],
    ['fail', expect.stringContaining('is queued, and only a running job can be failed')],
    ['kick', expect.stringContaining('is queued, and only')],
  ])('is judged once it was given back: %s', async (verb, expected) => {
    const claimed = await openClaimed();
    const done = outcomeOf(claimed, verb);
    await sleep(20);
    expect(claimed.row(claimed.id).state).toBe('claimed');
    await claimed.worker.release(claimed.job);
    expect(await done).toEqual(expected);
    checkInvariants(claimed.root, { isSettled: false });
  });

  test.each<[Verb, unknown]>([
    ['cancel', running('waiting or failed job')],
    ['delete', running('job that does not run')],
    ['kick', running('failed or delayed job')],
    ['bury', 'failed'],
    ['requeue', 'queued'],
    ['update', 'running'],
    ['touch', 'running'],
    ['fail', 'failed'],
  ])('is judged once it has begun: %s', async (verb, expected) => {
    const claimed = await openClaimed();
    const done = outcomeOf(claimed, verb);
    await sleep(20);
    await claimed.worker.begin(claimed.job);
    expect(await done).toEqual(expected);
    checkInvariants(claimed.root, { isSettled: false });
  });

  test.each<[Verb, unknown]>([
    ['cancel', running('waiting or failed job')],
    ['bury', 'failed'],
    ['requeue', 'queued'],
    ['fail', 'failed'],
    ['retry', 'failed'],
  ])('takes it for running where its worker stands still: %s', async (verb, expected) => {
    const claimed = await openClaimed();
    const { id, worker, job, row, root } = claimed;
    const startedAt = performance.now();
    expect(await outcomeOf(claimed, verb)).toEqual(expected);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(490);
    // Its worker is refused then, as after any lost claim.
    const before = row(id);
    const { decision } = await worker.settle(job);
    if (verb === 'cancel') expect([decision?.state, row(id).state]).toEqual(['finished', 'finished']);
    else expect([decision, row(id)]).toEqual([null, { ...before, claim_token: null, claimed_by: null }]);
    const [run] = claimed.runs(id);
    expect(run).toMatchObject(verb === 'cancel' ? { key: job.claim_token } : { worker_id: null });
    checkInvariants(root, { isSettled: false });
  });

  test('finds its unique key taken, adds children to it, and shows it as one that runs', async () => {
    const { queue, id, row, worker, job } = await openClaimed();
    const other = await queue.add('b', { n: 1 }, { uniqueKey: 'k' });
    const claimed = await worker.claimOne();
    expect(claimed.id).toBe(other);
    const again = { uniqueKey: 'k', onDuplicate: 'replace' } as const;
    expect(await queue.addUnique('b', { n: 2 }, again)).toEqual({
      id: other,
      added: false,
      changed: false,
      ignored: ['data'],
    });
    expect(row(other).data).toBe('{"n":1}');
    const kid = await queue.add('child', {}, { parent: id });
    expect(row(kid).state).toBe('paused');
    expect((await queue.list({ state: 'running' })).map((each) => each.id)).toEqual([other, id]);
    expect(await queue.count('mail/a')).toMatchObject([{ running: 1 }]);
    await worker.settle(job);
    expect([row(id).state, row(kid).state]).toEqual(['paused', 'queued']);
  });
});

test('the lease that is asked for comes before the job’s own', async () => {
  const { queue, row } = await openTestQueue();
  const id = await queue.add('a', {}, { lease: '10s' });
  await queue.claim('a', { lease: '3s' });
  expect(row(id).lease_expires_at).toBe(START + 3_000);
});

test('no claim of a job has a token that another one had', async () => {
  const log = await openTestQueue();
  const { queue, clock } = log;
  const worker = await openWorker(log);
  const id = await queue.add('a');
  const tokens = new Set<string>();
  const takers = {
    worker: async () => {
      const job = await worker.claimOne();
      await worker.begin(job);
      return { token: job.claim_token, leave: () => worker.settle(job) };
    },
    outsider: async () => ({ token: (await queue.claim())?.token ?? 'none', leave: async () => null }),
  };
  // Until the process of its worker has ended, nobody else has the job.
  const takeAndLeave = async (take: typeof takers.worker, moveOn: () => Promise<unknown>): Promise<void> => {
    const { token, leave } = await take();
    tokens.add(token);
    await moveOn();
    await leave();
  };
  for (const take of Object.values(takers) as (typeof takers.worker)[]) {
    await takeAndLeave(take, () => queue.requeue([id], { forgetTry: true }));
    await takeAndLeave(take, () => queue.bury(id));
    await queue.kick(id);
    await takeAndLeave(take, () => queue.retry(id));
    clock.at += 1;
  }
  expect(tokens.size).toBe(6);
});

test('three processes at once take each job exactly once', async () => {
  const { queue, root } = await openTestQueue();
  await queue.addMany(Array.from({ length: 120 }, (_, n) => ({ name: `a/${n % 5}`, runAt: START + n })));
  const claimers = [1, 2, 3].map(() => startNode([child, root, '3']));
  const claims = await readAnswers<{ id: number; token: string }[]>(claimers);
  for (const own of claims) {
    // Each of them in the order in which they are due.
    expect(own.map(({ id }) => id)).toEqual(own.map(({ id }) => id).toSorted((x, y) => x - y));
  }
  const all = claims.flat();
  const ids = all.map(({ id }) => id).toSorted((x, y) => x - y);
  expect(ids).toEqual(Array.from({ length: 120 }, (_, n) => n + 1));
  expect(new Set(all.map(({ token }) => token)).size).toBe(120);
  checkInvariants(root, { isSettled: false });
});

// On a server no claim waits: it takes what nobody else has locked.
testOfSqlite('a claim that waited for the log takes no job that was paused or set to fail meanwhile', async () => {
  const { queue, store, root, row } = await openTestQueue();
  const [paused = 0, failing = 0, free = 0] = await queue.addMany(
    ['mail/a', 'sms/a', 'export'].map((name) => ({ name })),
  );
  const holder = await holdLog(
    root,
    400,
    `insert into pauses (name, kind, until, created_at) values ('queue/mail/*', 'pause', null, 0), ('queue/sms/*', 'fail-fast', null, 0)`,
  );
  const claimed = await store.transaction(async (session) =>
    claimJobs(session, {
      ...{ count: 3, at: START, newToken: () => crypto.randomUUID(), leaseMs: null },
      ...{ defaultLeaseMs: LEASE_MS, state: 'running', missedCap: 0 },
      selection: selectionOf(everything.isWanted, await session.pauses.inForce(START), null),
    }),
  );
  expect(claimed.map(({ id }) => id)).toEqual([free]);
  expect([paused, failing].map((id) => row(id).state)).toEqual(['queued', 'failed']);
  expect((await holder.ended).status).toBe(0);
});

describe('jobs that are to fail at once', () => {
  const failing = (name: string): QueueSelection => ({ ...everything, failsFast: (each) => each === name });

  test('fail some at a time, and let others through', async () => {
    const log = await openTestQueue();
    const { queue, root, row, runs, events } = log;
    const bad = Array.from({ length: 700 }, () => ({ name: 'bad' }));
    await queue.addMany([...bad, { name: 'good', priority: 1 }, { name: 'bad', runAt: '+1h' }]);
    const failed = () => queryLog<{ n: number }>(root, `select count(*) as n from jobs where state = 'failed'`)[0]?.n;
    const worker = await openWorker(log);
    const claim = (count: number) => worker.claim(count, { selection: failing('bad') });
    expect(await claim(5)).toEqual([]);
    expect(failed()).toBe(500);
    expect((await claim(5)).map(({ name }) => name)).toEqual(['good']);
    expect(failed()).toBe(700);
    expect(row(1)).toMatchObject({
      ...{ state: 'failed', reason: 'jobs of its name are set to fail at once' },
      ...{ ...nothingBegun, finished_at: START, claim_token: null },
    });
    expect([runs(1), events(1)]).toEqual([[], ['job-queued', 'job-failed']]);
    expect(row(702)).toMatchObject({ name: 'bad', state: 'queued' });
    checkInvariants(root, { isSettled: false });
  });

  test.each([
    ['child', 'resume', ['queued', 'failed']],
    ['child', 'fail', ['failed', 'failed']],
    ['parent', 'resume', ['failed', 'cancelled']],
  ] as const)('leave nobody waiting: a %s (%s)', async (name, onChildFailure, states) => {
    const log: TestQueue = await openTestQueue();
    const { queue, take, root, row, clock } = log;
    const parent = await take('parent', { onChildFailure });
    const kid = await queue.add('child', {}, { parent: parent.id });
    if (name === 'child') await queue.finish(parent);
    else await queue.retry(parent);
    clock.at += 1;
    const worker = await openWorker(log);
    const [resumed] = await worker.claim(1, { selection: failing(name) });
    if (resumed !== undefined) await worker.release(resumed);
    expect([parent.id, kid].map((id) => row(id).state)).toEqual(states);
    checkInvariants(root, { isSettled: false });
  });
});

describe('a claim by number', () => {
  test('takes that job, whatever is before it, for as long as is asked for', async () => {
    const { queue, row, clock } = await openTestQueue();
    await queue.add('a', {}, { priority: 900 });
    const id = await queue.add('b', {}, { lease: '1h' });
    expect(await queue.get(id)).toMatchObject({ leaseMs: 3_600_000, leasedUntil: null });
    const claimed = await queue.claimJob(id, { lease: '5m' });
    expect(claimed).toMatchObject({ id, attempt: 1, leasedUntil: new Date(clock.at + 300_000) });
    await queue.finish(claimed);
    expect(row(id).state).toBe('finished');
  });

  test('kicks what has failed or is not due yet: it has all its tries, and its rule its time', async () => {
    const { queue, row, clock } = await openTestQueue();
    const failed = await queue.add('a');
    await queue.fail((await queue.claim('a')) ?? 0);
    const delayed = await queue.add('b', {}, { repeat: 'SCHEDULED, +1 HOUR', runAt: '+30m' });
    expect(await queue.claimJob(failed)).toMatchObject({ attempt: 1, counters: { reserves: 2, kicks: 1 } });
    const claimed = await queue.claimJob(delayed);
    expect(claimed).toMatchObject({ runAt: new Date(clock.at), scheduledFor: new Date(START + 1_800_000) });
    await queue.finish(claimed);
    expect(row(delayed)).toMatchObject({ state: 'queued', run_at: START + 5_400_000 });
  });

  test('gets what plain SQL has added with a rule that gives it a later time', async () => {
    const { queue, root, clock } = await openTestQueue();
    clock.at = Date.now();
    const values = `('a', 'daily at 10:00', ?, ?)`;
    changeLog(root, `insert into jobs (name, "repeat", created_at, run_at) values ${values}`, clock.at, clock.at);
    expect(await queue.claimJob(1)).toMatchObject({ id: 1, attempt: 1, counters: { kicks: 1 } });
    checkInvariants(root, { isSettled: false });
  });

  test('takes back first what was not renewed in time', async () => {
    const { queue, take, clock } = await openTestQueue();
    const lost = await take('a', { retries: 1 });
    await expect(queue.claimJob(lost.id)).rejects.toThrow('is running, and only a waiting or failed job');
    clock.at += LEASE_MS + 2_001;
    expect(await queue.claimJob(lost.id)).toMatchObject({ id: lost.id, attempt: 2, counters: { timeouts: 1 } });
  });

  test('waits for the moment in which a worker has it', async () => {
    const { queue, id, worker, job } = await openClaimed();
    const claimed = queue.claimJob(id);
    await sleep(20);
    await worker.release(job);
    expect(await claimed).toMatchObject({ id });
  });

  test.each<[string, string, (log: TestQueue) => Promise<unknown>]>([
    ['name is paused', 'its name is paused; `npx folder-runner jobs` shows', ({ queue }) => queue.pause('mail/*')],
    ['name fails fast', 'set to fail at once', ({ queue }) => queue.pause('mail/*', { fail: true })],
    ['group is full', 'as many jobs of its group run as', ({ take }) => take('other', { group: 'g' })],
    [
      'parent has not ended',
      'is paused, and only a waiting or failed job',
      async ({ queue, root }) => {
        await queue.requeue([1], { name: 'mail/b' });
        changeLog(root, 'update jobs set parent_id = ? where id = 1', await queue.add('parent'));
      },
    ],
  ])('changes nothing if its %s', async (_, why, make) => {
    const log = await openTestQueue({ groupLimit: 1 });
    const { queue, dump } = log;
    const id = await queue.add('mail/a', {}, { group: 'g', runAt: '+1h' });
    await make(log);
    const before = dump();
    const refused = { code: 'wrong-state', message: expect.stringContaining(why) };
    await expect(queue.claimJob(id)).rejects.toMatchObject(refused);
    expect(dump()).toBe(before);
  });
});

test('a claim with a floor takes no job below it, and a wait for one goes on', async () => {
  const { queue } = await openTestQueue();
  await queue.add('a', {}, { priority: 749 });
  expect(await queue.claim('*', { minPriority: 750 })).toBeNull();
  const waiting = queue.claim('*', { minPriority: 750, wait: '1h' });
  const id = await queue.add('a', {}, { priority: 750 });
  expect(await waiting).toMatchObject({ id });
  await expect(queue.claim('*', { minPriority: '7' as never })).rejects.toThrow('A priority must be a whole number');
});
