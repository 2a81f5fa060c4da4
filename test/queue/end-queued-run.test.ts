import { describe, expect, test } from 'vitest';
import type { JobOptions } from '../../src/queue/api.ts';
import { claimJobs } from '../../src/queue/claim/claim.ts';
import { type Archive, createArchive } from '../../src/queue/settle/archive.ts';
import { policyOf } from '../../src/queue/settle/retry-policy.ts';
import {
  endQueuedRun,
  type QueuedRunEnd,
  recordRunEnd,
} from '../../src/queue/settle/settle-run.ts';
import type { FinishedRun, JobRow } from '../../src/store/schema.ts';

import { makeFinishedRun } from '../support/finished-run.ts';
import { checkInvariants } from '../support/invariants.ts';
import { queryLog } from '../support/open-log.ts';
import { MINUTE_MS, openTestQueue, START, type TestQueue } from '../support/test-queue.ts';

const LASTS_MS = 1_000;
const ENDED_AT = START + LASTS_MS;

/** Takes the next job as a worker does that has a handler of it, and ends it. */
async function takeAs(log: TestQueue) {
  const selection = { groupLimit: null, isWanted: () => true, isFused: () => false };
  const policy = policyOf({
    retries: 1,
    retryDelay: { firstMs: MINUTE_MS, factor: 1, longestMs: MINUTE_MS },
  });
  const handlerOf = () => ({ policy, timeoutMs: 1_000, contentHash: null, isWarm: true });
  const claiming = { workerId: null, at: log.clock.at, defaultLeaseMs: 60_000, handlerOf };
  const [claimed] = await claimJobs(log.db, async () => selection, claiming, 1);
  if (claimed === undefined) throw new Error('There is none.');
  const end = (run: Partial<FinishedRun>, more: Partial<QueuedRunEnd> = {}, archive?: Archive) =>
    log.db.transaction().execute((db) =>
      endQueuedRun(
        db,
        {
          claim: claimed.claim,
          run: makeFinishedRun({ finished_at: log.clock.at + LASTS_MS, ...run }),
          ...{ result: null, ask: null, isRetryable: true, ...more },
        },
        { workerId: null, missedCap: 10, ...(archive !== undefined && { archive }) },
      ),
    );
  return { ...claimed, end };
}

async function openWith(options: JobOptions = {}) {
  const log = await openTestQueue();
  const id = await log.queue.add('mail/a', { to: 1 }, options);
  return { ...log, id, ...(await takeAs(log)) };
}

const failure = { outcome: 'failed', exit_code: 1, reason: 'exit code 1' } as const;
const release = { ...failure, outcome: 'released' } as const;
const crash = { outcome: 'crashed', exit_code: null, reason: 'its runner died' } as const;
const timeout = { outcome: 'timed-out', exit_code: null, reason: 'timed out' } as const;

test.each<[string, Partial<FinishedRun>, Partial<QueuedRunEnd>, Partial<JobRow>, string]>([
  [
    'finishes',
    {},
    { result: '7' },
    { state: 'finished', result: '7', reason: null, finished_at: ENDED_AT },
    'job-finished',
  ],
  [
    'is tried again after a failure',
    failure,
    {},
    {
      state: 'retrying',
      run_at: ENDED_AT + MINUTE_MS,
      attempts: 1,
      reason: 'exit code 1',
      releases: 0,
    },
    'job-retrying',
  ],
  [
    'fails at once where another try would end alike',
    failure,
    { isRetryable: false },
    { state: 'failed', finished_at: ENDED_AT },
    'job-failed',
  ],
  ['counts a timeout', timeout, {}, { state: 'retrying', timeouts: 1, crashes: 0 }, 'job-retrying'],
  ['counts a crash', crash, {}, { state: 'retrying', timeouts: 0, crashes: 1 }, 'job-retrying'],
  [
    'is given back as its handler asks',
    release,
    { ask: { kind: 'retry', delayMs: 5, priority: 9, name: 'mail/b', data: '[]' } },
    {
      state: 'retrying',
      run_at: ENDED_AT + 5,
      priority: 9,
      name: 'mail/b',
      data: '[]',
      attempts: 0,
      releases: 1,
    },
    'job-released',
  ],
  [
    'is given back after its delay',
    release,
    { ask: { kind: 'retry' } },
    { state: 'retrying', run_at: ENDED_AT + MINUTE_MS, data: '{"to":1}', releases: 1 },
    'job-released',
  ],
  [
    'is given back as its handler asked at its time limit, which is counted',
    timeout,
    { ask: { kind: 'retry' } },
    { state: 'retrying', attempts: 0, releases: 1, timeouts: 1 },
    'job-released',
  ],
  [
    'fails as its handler asks',
    failure,
    { ask: { kind: 'fail', reason: 'no such address' } },
    { state: 'failed', reason: 'no such address' },
    'job-failed',
  ],
])('a job %s', async (_, run, more, columns, event) => {
  const log = await openWith();
  const verdict = await log.end(run, more);
  expect(verdict?.state).toBe(columns.state);
  expect(log.row(log.id)).toMatchObject({ ...columns, claim_token: null, leased_until: null });
  expect(log.events(log.id)).toEqual(['job-queued', 'job-running', event]);
  expect(log.runs(log.id)).toMatchObject([makeFinishedRun({ finished_at: ENDED_AT, ...run })]);
  const told = 'select run_id, detail from activity order by id desc limit 1';
  const detail = columns.reason ?? run.reason ?? null;
  expect(queryLog(log.root, told)).toEqual([{ run_id: log.claim.runId, detail }]);
  checkInvariants(log.root, { isSettled: false });
});

test('tries are used up by failures', async () => {
  const log = await openWith();
  await log.end(failure);
  log.clock.at = ENDED_AT + MINUTE_MS;
  const { end, claim } = await takeAs(log);
  expect(claim.attempt).toBe(2);
  expect(await end(failure)).toEqual({ state: 'failed' });
  checkInvariants(log.root, { isSettled: false });
});

test.each([
  ['9 crashes', 9, crash, 'retrying'],
  ['10 crashes', 10, crash, 'failed'],
  ['9 crashes and a failure', 9, failure, 'failed'],
] as const)('after %s a job of one try is %s', async (_, crashes, last, state) => {
  const log = await openWith({ retries: 0 });
  let next: Pick<typeof log, 'end'> = log;
  for (let count = 1; count < crashes; count += 1) {
    await next.end(crash);
    log.clock.at += 2 * MINUTE_MS;
    next = await takeAs(log);
  }
  if (last === failure) {
    await next.end(crash);
    log.clock.at += 2 * MINUTE_MS;
    next = await takeAs(log);
  }
  expect((await next.end(last))?.state).toBe(state);
});

test.each(['finish', 'fail', 'delete', 'requeue'] as const)(
  'an end after somebody else’s %s adds what the run printed, and changes nothing',
  async (verb) => {
    const log = await openWith();
    const { id, claim } = log;
    await (verb === 'requeue'
      ? log.queue.requeue([id])
      : log.queue[verb]({ id, token: claim.token }));
    const printed = { output: 'so far\n', output_bytes: 7, output_dropped_bytes: 0 };
    const before = log.runs(id).map((run) => ({ ...run, ...printed }));
    const left = log.dumpWithoutOutput();
    expect(await log.end(printed, { result: '"late"' })).toBeNull();
    expect(await log.end({ ...failure, output: 'later' })).toBeNull();
    expect(log.runs(id)).toEqual(before);
    expect(log.dumpWithoutOutput()).toBe(left);
  },
);

test('a repeating job, a child and a parent end by all that follows', async () => {
  const log = await openTestQueue();
  await log.queue.add('parent', {}, { repeat: 'FINISHED, +1 MINUTE' });
  const parent = await takeAs(log);
  const child = await log.queue.add('child', {}, { parent: parent.job.id });
  await parent.end({});
  expect([log.row(1).state, log.row(child).state]).toEqual(['paused', 'queued']);
  log.clock.at = ENDED_AT;
  await (await takeAs(log)).end({}, { result: '1' });
  log.clock.at += LASTS_MS;
  expect([log.row(1).state, log.row(child).state]).toEqual(['queued', 'finished']);
  const again = await takeAs(log);
  expect(again.hasEndedChildren).toBe(true);
  await again.end({});
  expect(log.row(1)).toMatchObject({
    state: 'queued',
    run_at: ENDED_AT + 2 * LASTS_MS + MINUTE_MS,
  });
  checkInvariants(log.root, { isSettled: false });
});

test.each([
  ['keep', {}, true],
  ['keep', failure, true],
  ['keep-failed', {}, false],
  ['keep-failed', failure, true],
  ['remove', failure, false],
] as const)('with %s of the last of two policies that fit, of %j', async (policy, run, isKept) => {
  const log = await openWith({ retries: 0 });
  const files: string[] = [];
  const policies = { 'mail/*': policy === 'remove' ? 'keep' : 'remove', '*/a': policy } as const;
  const archive = createArchive(policies, (names) => files.push(...names));
  await log.end({ ...run, output_file: '7.log.gz', output_file_bytes: 3 }, {}, archive);
  expect(log.row(log.id) === undefined).toBe(!isKept);
  expect([log.runs(log.id).length, files]).toEqual(isKept ? [1, []] : [0, ['7.log.gz']]);
  expect(log.events(log.id)).toHaveLength(3);
});

describe('a job with a rule that has no tries left', () => {
  const lastTry = { retries: 0 };

  test.each(['every 90 seconds', 'daily at 10:00 in Europe/Berlin'])(
    'runs again when "%s" says so',
    async (repeat) => {
      const log = await openWith({ ...lastTry, repeat, runAt: START });
      expect(await log.end(failure)).toEqual({ state: 'failed' });
      const row = log.row(log.id);
      expect(row).toMatchObject({ state: 'queued', attempts: 0, reason: 'exit code 1' });
      expect(row.finished_at).toBeNull();
      expect(row.run_at).toBeGreaterThan(ENDED_AT);
      expect(log.events(log.id).slice(-2)).toEqual(['job-failed', 'job-queued']);
      checkInvariants(log.root, { isSettled: false });
    },
  );

  test.each([
    ['of Bedrock says only what follows a finish', 'FINISHED, +1 HOUR', {}],
    [
      'ends with a handler that fails for good',
      'every 90 seconds',
      { ask: { kind: 'fail', reason: 'no such address' } },
    ],
  ] as const)('%s', async (_, repeat, more) => {
    const log = await openWith({ ...lastTry, repeat });
    await log.end(failure, more);
    expect(log.row(log.id)).toMatchObject({ state: 'failed' });
    checkInvariants(log.root, { isSettled: false });
  });

  test('is tried again first, if it has tries left', async () => {
    const log = await openWith({ retries: 1, repeat: 'every 90 seconds' });
    expect(await log.end(failure)).toMatchObject({ state: 'retrying' });
    expect(log.row(log.id)).toMatchObject({ state: 'retrying', attempts: 1 });
  });
});

describe('an end that the log refuses', () => {
  const refused = { kind: 'retry', delayMs: 9e15 } as const;

  test('has failed, and says why', async () => {
    const log = await openWith();
    const told: string[] = [];
    const verdict = await recordRunEnd(
      (work) => log.db.transaction().execute(work),
      {
        claim: log.claim,
        run: makeFinishedRun({ ...release, finished_at: ENDED_AT, output: 'so far\n' }),
        ...{ result: null, ask: refused, isRetryable: true },
      },
      { workerId: null, missedCap: 10, onRefused: (sentence) => told.push(sentence) },
    );
    expect(verdict).toEqual({ state: 'failed' });
    const reason = expect.stringMatching(/^its end could not be recorded: CHECK constraint failed/);
    expect(log.row(log.id)).toMatchObject({ state: 'failed', reason });
    expect(log.runs(log.id)).toMatchObject([{ outcome: 'failed', reason, output: 'so far\n' }]);
    expect(told).toEqual([expect.stringMatching(/^job 1 has failed, as its end could not/)]);
    checkInvariants(log.root, { isSettled: false });
  });

  test('is not taken for one while the log itself cannot be written', async () => {
    const log = await openWith();
    const locked = Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
    const end = { claim: log.claim, run: makeFinishedRun(), result: null, ask: null };
    const ending = recordRunEnd(
      () => Promise.reject(locked),
      { ...end, isRetryable: true },
      { workerId: null, missedCap: 10 },
    );
    await expect(ending).rejects.toBe(locked);
  });
});
