import { describe, expect, test } from 'vitest';
import type { HandlerDecision } from '../../../src/child/contract.ts';
import type { JobOptions } from '../../../src/queue/api.ts';
import { createArchive } from '../../../src/queue/settle/archive.ts';
import { type RunToSettle, recordRefused } from '../../../src/queue/settle/settle.ts';
import type { FinishedRun, JobRow } from '../../../src/store/schema.ts';
import type { JobCounters } from '../../../src/store/statements/list-jobs.ts';
import { incidentsOf } from '../../../src/store/statements/monitor/incidents.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { makeFinishedRun, queryLog, testOfSqlite } from '../../support/log.ts';
import { MINUTE_MS, openTestQueue, SECOND_MS, START } from '../../support/queue.ts';
import { openWorker } from './worker-claims.ts';

const LASTS_MS = 1_000;
const ENDED_AT = START + LASTS_MS;

/** As a handler says of itself that is tried twice. */
const options = { retries: 1, retryDelay: { firstMs: MINUTE_MS, factor: 1, longestMs: MINUTE_MS } } as const;

/** A job that a worker has claimed, and its end a second later. */
async function openWith(jobOptions: JobOptions = {}) {
  const log = await openTestQueue();
  const worker = await openWorker(log, { options });
  const id = await log.queue.add('mail/a', { to: 1 }, jobOptions);
  const job = await worker.claimOne();
  const { clock } = log;
  const end = (run: Partial<FinishedRun> = {}, more: Parameters<typeof worker.settle>[2] = {}, taken = job) =>
    worker.settle(taken, { finished_at: clock.at + LASTS_MS, ...run }, more);
  return { ...log, worker, id, job, end };
}

const failure = { outcome: 'failed', exit_code: 1, reason: 'exit code 1' } as const;
const release = { ...failure, outcome: 'released' } as const;
const crash = { outcome: 'crashed', exit_code: null, reason: 'its runner died' } as const;
const timeout = { outcome: 'timed-out', exit_code: null, reason: 'timed out' } as const;

interface Expected {
  readonly columns: Partial<JobRow> & Pick<JobRow, 'state'>;
  readonly counters?: Partial<JobCounters>;
  readonly event: string;
}

type More = Partial<Pick<RunToSettle, 'result' | 'isRetryable'>> & { readonly decision?: HandlerDecision };

const cases: readonly [string, Partial<FinishedRun>, More, Expected][] = [
  [
    'finishes',
    {},
    { result: '7' },
    { columns: { state: 'finished', result: '7', reason: null, finished_at: ENDED_AT }, event: 'job-finished' },
  ],
  [
    'is tried again after a failure',
    failure,
    {},
    {
      columns: { state: 'retrying', run_at: ENDED_AT + MINUTE_MS, attempts: 1, ready: 0, reason: 'exit code 1' },
      counters: { releases: 0 },
      event: 'job-retrying',
    },
  ],
  [
    'fails at once where another try would end alike',
    failure,
    { isRetryable: false },
    { columns: { state: 'failed', finished_at: ENDED_AT }, event: 'job-failed' },
  ],
  [
    'counts a timeout',
    timeout,
    {},
    { columns: { state: 'retrying' }, counters: { timeouts: 1, crashes: 0 }, event: 'job-retrying' },
  ],
  [
    'counts a crash',
    crash,
    {},
    { columns: { state: 'retrying' }, counters: { timeouts: 0, crashes: 1 }, event: 'job-retrying' },
  ],
  [
    'is given back as its handler asks',
    release,
    { decision: { kind: 'retry', delayMs: 5, priority: 9, name: 'mail/b', data: '[]' } },
    {
      columns: {
        ...{ state: 'retrying', run_at: ENDED_AT + 5, priority: 9, name: 'mail/b' },
        ...{ data: '[]', attempts: 0 },
      },
      counters: { releases: 1 },
      event: 'job-released',
    },
  ],
  [
    'is given back after its delay',
    release,
    { decision: { kind: 'retry' } },
    {
      columns: { ...{ state: 'retrying', run_at: ENDED_AT + MINUTE_MS, data: '{"to":1}', attempts: 0 } },
      counters: { releases: 1 },
      event: 'job-released',
    },
  ],
  [
    'is given back until its time',
    release,
    { decision: { kind: 'retry', delayMs: 5, runAt: ENDED_AT + 7 } },
    {
      columns: { state: 'retrying', run_at: ENDED_AT + 7, attempts: 0 },
      counters: { releases: 1 },
      event: 'job-released',
    },
  ],
  [
    'is tried again when its handler asks, though its try has failed',
    failure,
    { decision: { kind: 'retry', delayMs: 5, failure: 'busy' } },
    { columns: { state: 'retrying', run_at: ENDED_AT + 5, attempts: 1 }, event: 'job-retrying' },
  ],
  [
    'is given back as its handler asked at its time limit, which is counted',
    timeout,
    { decision: { kind: 'retry' } },
    { columns: { state: 'retrying', attempts: 0 }, counters: { timeouts: 1 }, event: 'job-retrying' },
  ],
  [
    'fails as its handler asks',
    failure,
    { decision: { kind: 'fail', reason: 'no such address' } },
    { columns: { state: 'failed', reason: 'no such address' }, event: 'job-failed' },
  ],
];

test('a job whose rule is wrong after its success fails, and opens an incident', async () => {
  const { queue, store, row } = await openTestQueue();
  const first = await queue.add('mail/a');
  const [plain] = await store.transaction(({ jobs }) => jobs.wholeById([first]));
  const { id: _, ...columns } = plain as NonNullable<typeof plain>;
  await queue.delete(first);
  // By plain SQL, since it was added.
  const rule = { repeat: 'sometimes', scheduled_for: START };
  const [id] = await store.transaction(({ jobs }) => jobs.add([{ ...columns, ...rule }], START));
  const claimed = await queue.claim('mail/a');
  expect(claimed?.id).toBe(id);
  await queue.finish(claimed as NonNullable<typeof claimed>);
  const reason = 'its rule "sometimes" gives no next time: ';
  expect(row(id as number)).toMatchObject({ state: 'failed', reason: expect.stringContaining(reason) });
  expect(await incidentsOf(store.statements).current(['queue/mail/a'])).toMatchObject([
    { code: 'script-failing', message: expect.stringContaining(reason) },
  ]);
});

describe.each(['short', 'long'])('after a %s run', (length) => {
  test.each(cases)('a job %s', async (_, run, more, { columns, counters = {}, event }) => {
    const log = await openWith();
    if (length === 'long') await log.worker.begin(log.job);
    const { decision, runId } = await log.end(run, more);
    expect(decision?.state).toBe(columns.state);
    const unclaimed = { claim_token: null, lease_expires_at: null, started_at: START };
    expect(log.row(log.id)).toMatchObject({ attempts: 1, ...columns, ...unclaimed });
    expect(log.events(log.id)).toEqual(['job-queued', 'run-started', event]);
    expect(log.runs(log.id)).toMatchObject([
      { id: runId, ...makeFinishedRun({ finished_at: ENDED_AT, ...run }), attempt: 1 },
    ]);
    expect(await log.queue.get(log.id)).toMatchObject({ counters: { reserves: 1, ...counters } });
    checkInvariants(log.root, { isSettled: false });
  });
});

test('tries are used up by failures', async () => {
  const { end, worker, clock, root, row, id } = await openWith();
  await end(failure);
  clock.at = ENDED_AT + MINUTE_MS;
  const again = await worker.claimOne();
  expect(await end(failure, {}, again)).toMatchObject({ decision: { state: 'failed' } });
  expect(row(id)).toMatchObject({ state: 'failed', attempts: 2 });
  checkInvariants(root, { isSettled: false });
});

test.each([
  // What the job says of itself, and how long its second try waits.
  [{ retries: 0 }, null],
  [{}, MINUTE_MS],
  [{ retryDelay: '5m' }, 5 * MINUTE_MS],
  [{ retries: 2 }, MINUTE_MS],
  [{ retries: 1, retryDelay: '5ms' }, 5],
])('what a job says of its tries counts more than what its handler says: %j', async (own, waitMs) => {
  const { end, row, id } = await openWith(own);
  await end(failure);
  const expected = { state: 'retrying', run_at: ENDED_AT + (waitMs ?? 0) };
  expect(row(id)).toMatchObject(waitMs === null ? { state: 'failed' } : expected);
});

test.each([
  ['9 crashes', 9, crash, 'retrying'],
  ['10 crashes', 10, crash, 'failed'],
  ['9 crashes and a failure', 10, failure, 'failed'],
] as const)('after %s a job of one try is %s', async (_, tries, last, state) => {
  const { end, worker, clock, job } = await openWith({ retries: 0 });
  let next = job;
  for (let count = 1; count < tries; count += 1) {
    await end(crash, {}, next);
    clock.at += 2 * MINUTE_MS;
    next = await worker.claimOne();
  }
  expect((await end(last, {}, next)).decision?.state).toBe(state);
});

/** The end of its process frees the job. */
const withoutClaim = (dump: string): string =>
  dump.replace(/"claim_token":"[^"]*"/, '"claim_token":null').replace(/"claimed_by":\d+/, '"claimed_by":null');

test.each(['finish', 'fail', 'delete', 'requeue'] as const)(
  'an end after somebody else’s %s adds what the run printed, and changes nothing',
  async (verb) => {
    const log = await openWith();
    const { id, job, worker, queue } = log;
    await worker.begin(job);
    const token = job.claim_token;
    await (verb === 'requeue' ? queue.requeue([id]) : queue[verb]({ id, token }));
    const printed = { output: 'so far\n', output_bytes: 7, output_dropped_bytes: 0 };
    const before = log.runs(id).map((run) => ({ ...run, ...printed }));
    const left = log.dumpWithoutOutput();
    expect((await log.end(printed, { result: '"late"' })).decision).toBeNull();
    expect((await log.end({ ...failure, output: 'later' })).decision).toBeNull();
    expect(log.runs(id)).toEqual(before);
    expect(log.dumpWithoutOutput()).toBe(withoutClaim(left));
  },
);

// Servers give no number twice.
testOfSqlite('an end after its job was deleted adds nothing to the run that has its number by now', async () => {
  const { worker, job, queue, id, end, runs } = await openWith();
  const runId = await worker.begin(job);
  await queue.delete({ id, token: job.claim_token });
  const other = await queue.add('mail/b');
  expect(await worker.begin(await worker.claimOne())).toBe(runId);
  expect((await end({ output: 'of the first\n', output_bytes: 13 })).decision).toBeNull();
  expect(runs(other)).toMatchObject([{ id: runId, outcome: 'running', output: null }]);
});

test('an end of what was claimed, and was requeued before it had a row, leaves nothing', async () => {
  const { id, job, end, queue, clock, dump, row } = await openWith();
  clock.at += 1;
  // Nobody waits for it to begin: it stands still.
  await queue.requeue([id]);
  const before = dump();
  expect(await end({}, { result: '"late"' })).toEqual({ decision: null, runId: null });
  expect(dump()).toBe(withoutClaim(before));
  expect(row(id)).toMatchObject({ state: 'queued', claim_token: null });
  expect(job.claim_token).not.toBe((await queue.claim())?.token);
});

describe('a family', () => {
  test('ends by all that follows, over and over', async () => {
    const log = await openTestQueue();
    const { queue, row, clock, root } = log;
    const worker = await openWorker(log, { options });
    await queue.add('parent', {}, { repeat: 'FINISHED, +1 MINUTE' });
    const parent = await worker.claimOne();
    await worker.begin(parent);
    const child = await queue.add('child', {}, { parent: parent.id });
    clock.at += SECOND_MS;
    await worker.settle(parent);
    expect([row(1).state, row(child).state]).toEqual(['paused', 'queued']);
    clock.at += SECOND_MS;
    await worker.settle(await worker.claimOne(), {}, { result: '1' });
    expect([row(1).state, row(child).state]).toEqual(['queued', 'finished']);
    clock.at += SECOND_MS;
    const again = await worker.claimOne();
    expect(again.has_unreported_children).toBe(true);
    await worker.settle(again);
    expect(row(1)).toMatchObject({ state: 'queued', run_at: clock.at + MINUTE_MS });
    expect(row(child).reported_to_parent).toBe(1);
    checkInvariants(root, { isSettled: false });
  });

  async function openLastChildren() {
    const log = await openTestQueue();
    const parent = await log.take('parent');
    const kid = { name: 'child', parent: parent.id };
    await log.queue.addMany([kid, kid]);
    await log.queue.finish(parent);
    const worker = await openWorker(log);
    const children = await worker.claim(2);
    expect(children).toHaveLength(2);
    const expectResumed = (): void => {
      expect([1, 2, 3].map((id) => log.row(id).state)).toEqual(['queued', 'finished', 'finished']);
      const resumed = `select 1 from events where job_id = 1 and event = 'job-queued'`;
      expect(queryLog(log.root, resumed)).toHaveLength(1);
      checkInvariants(log.root, { isSettled: false });
    };
    return { ...log, worker, children, expectResumed };
  }

  test('is resumed once by the last two children that end in one commit', async () => {
    const { worker, children, expectResumed } = await openLastChildren();
    const settled = await worker.settleTogether(children);
    expect(settled).toMatchObject([{ runId: 2 }, { runId: 3 }]);
    expectResumed();
  });
});

test.each([
  ['keep', {}, true],
  ['keep', failure, true],
  ['keep-failed', {}, false],
  ['keep-failed', failure, true],
  ['remove', failure, false],
] as const)('with %s of the last of two policies that fit, of %j', async (policy, run, isKept) => {
  const log = await openWith({ retries: 0 });
  const policies = { 'mail/*': policy === 'remove' ? 'keep' : 'remove', '*/a': policy } as const;
  const archive = createArchive(policies);
  await log.end({ ...run, output_file: '7.log.gz', output_file_bytes: 3 }, { archive });
  expect(log.row(log.id) === undefined).toBe(!isKept);
  expect([log.runs(log.id).length, archive.unnamed]).toEqual(isKept ? [1, []] : [0, ['7.log.gz']]);
  expect(log.events(log.id)).toHaveLength(isKept ? 3 : 0);
});

describe('a job with a rule that has no tries left', () => {
  const lastTry = { retries: 0 };

  test.each(['every 90 seconds', 'daily at 10:00 in Europe/Berlin'])('runs again when "%s" says so', async (repeat) => {
    const log = await openWith({ ...lastTry, repeat, runAt: START });
    expect((await log.end(failure)).decision).toEqual({ state: 'failed' });
    const row = log.row(log.id);
    expect(row).toMatchObject({ state: 'queued', attempts: 0, reason: 'exit code 1' });
    expect(row.finished_at).toBeNull();
    expect(row.run_at).toBeGreaterThan(ENDED_AT);
    expect(log.events(log.id).at(-1)).toBe('job-failed');
    checkInvariants(log.root, { isSettled: false });
  });

  test.each([
    ['of Bedrock says only what follows a finish', 'FINISHED, +1 HOUR', {}],
    [
      'ends with a handler that fails for good',
      'every 90 seconds',
      { decision: { kind: 'fail', reason: 'no such address' } },
    ],
  ] as const)('%s', async (_, repeat, more) => {
    const log = await openWith({ ...lastTry, repeat });
    await log.end(failure, more);
    expect(log.row(log.id)).toMatchObject({ state: 'failed' });
    checkInvariants(log.root, { isSettled: false });
  });

  test('is tried again first, if it has tries left', async () => {
    const log = await openWith({ retries: 1, repeat: 'every 90 seconds' });
    expect(await log.end(failure)).toMatchObject({ decision: { state: 'retrying' } });
    expect(log.row(log.id)).toMatchObject({ state: 'retrying', attempts: 1 });
  });
});

const toTold = (end: FinishedRun) => ({ end, result: '1', decision: null, isRetryable: true });
const asIs = async ({ end }: { readonly end: FinishedRun }) => end;

test('an end that the log refuses is not taken for one while the log itself cannot be written', async () => {
  const locked = Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
  const end = makeFinishedRun(release);
  await expect(recordRefused(toTold(end), locked, asIs)).rejects.toThrow(locked);
  const refusal = Object.assign(new Error('CHECK'), { code: 'SQLITE_CONSTRAINT_CHECK' });
  const failed = { outcome: 'failed', reason: 'its end could not be recorded: CHECK' };
  expect(await recordRefused(toTold(end), refusal, asIs)).toMatchObject({ ...failed, output: 'hi\n' });
  const recordWordless = async ({ end: refused }: { readonly end: FinishedRun }) => {
    if (refused.output !== null) throw refusal;
    return refused;
  };
  expect(await recordRefused(toTold(end), refusal, recordWordless)).toMatchObject({
    ...failed,
    ...{ output: null, output_dropped_bytes: end.output_bytes },
  });
});

test.each(['SQLITE_TOOBIG', '22021', '23514', 'ER_DATA_TOO_LONG'])('%s is a refusal', async (code) => {
  const refusal = Object.assign(new Error('no'), { code });
  const end = await recordRefused(toTold(makeFinishedRun()), refusal, asIs);
  expect(end).toMatchObject({ outcome: 'failed', reason: 'its end could not be recorded: no' });
});

test('a defect of the runner makes no run a failed one: it is thrown as it is', async () => {
  for (const defect of [new TypeError('undefined is not a function'), new Error('no such thing')]) {
    await expect(recordRefused(toTold(makeFinishedRun()), defect, asIs)).rejects.toBe(defect);
  }
});
