import { expect, test } from 'vitest';
import { cancelJobs, deferJobs, enqueueScripts } from '../../src/queue/add/scripts.ts';
import { type Claim, claimJob, recordProgress } from '../../src/queue/claim/script-claim.ts';
import { policyOf } from '../../src/queue/settle/retry-policy.ts';
import { type EndedRun, finishJob } from '../../src/queue/settle/script-run.ts';
import type { ScriptOptions } from '../../src/settings/readers.ts';
import type { FinishedRun } from '../../src/store/schema.ts';

import { makeFinishedRun } from '../support/finished-run.ts';
import { queryLog } from '../support/open-log.ts';
import { makeScript } from '../support/plain-script.ts';
import { startNode } from '../support/start-command.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

const claimAll = new URL('claim-all.child.ts', import.meta.url).pathname;
const AT = Date.UTC(2026, 10, 1, 12);

/** A root's log with one worker, and the jobs of these scripts in it. */
async function enqueue(names: readonly string[], options: ScriptOptions = {}) {
  const root = makeTemporaryRoot();
  const { db, addPass, state } = await writeLog(root);
  const workerId = await addPass('hourly', AT, { state: 'running' });
  const scripts = names.map((name) => makeScript(name, options));
  const jobs = await enqueueScripts(db, scripts, { workerId, scheduledFor: AT, at: AT });
  return { root, db, state, workerId, jobs };
}

const TIMEOUT_MS = 60_000;

async function claimFirst(names: readonly string[] = ['hourly/a'], options: ScriptOptions = {}) {
  const all = await enqueue(names, options);
  const { db, jobs, workerId } = all;
  const claiming = { workerId, at: AT + 5, timeoutMs: TIMEOUT_MS };
  const claim = (await claimJob(db, jobs[0] as never, claiming)) as Claim;
  const end = (run: Partial<FinishedRun> = {}): EndedRun => ({
    claim,
    policy: policyOf(options),
    run: makeFinishedRun(run),
    isRetryable: true,
  });
  return { ...all, claim, end };
}

test('each script becomes one job, in the order given', async () => {
  const names = ['hourly/b', 'hourly/a', 'hourly/10', 'hourly/2'];
  const { root, jobs } = await enqueue(names);
  expect(jobs.map((job) => job.script.name)).toEqual(names);
  expect(jobs.map((job) => job.id)).toEqual([1, 2, 3, 4]);
  expect(queryLog(root, 'select id, name, state, scheduled_for from jobs order by id')).toEqual(
    names.map((name, index) => ({ id: index + 1, name, state: 'queued', scheduled_for: AT })),
  );
  expect(queryLog(root, `select job_id from activity where event = 'job-queued'`)).toEqual(
    [1, 2, 3, 4].map((id) => ({ job_id: id })),
  );
});

test('no scripts are no jobs', async () => {
  const { root, jobs } = await enqueue([]);
  expect(jobs).toEqual([]);
  expect(queryLog(root, 'select id from jobs')).toEqual([]);
});

test('three hundred scripts are enqueued at once', async () => {
  const names = Array.from({ length: 300 }, (_, index) => `hourly/${index}`);
  const { root, jobs } = await enqueue(names);
  expect(jobs.at(-1)?.script.name).toBe('hourly/299');
  expect(queryLog(root, 'select count(*) as jobs from jobs')).toEqual([{ jobs: 300 }]);
});

test('a claim writes down how often the script says it is to be tried', async () => {
  const retryDelay = { firstMs: 5_000, factor: 2, longestMs: 60_000 };
  const { root } = await claimFirst(['hourly/a'], { retries: 3, retryDelay, onCrash: 'fail' });
  const columns =
    'attempts, max_attempts, retry_delay_ms, retry_factor, retry_longest_ms, on_crash';
  expect(queryLog(root, `select ${columns} from jobs`)).toEqual([
    {
      attempts: 1,
      max_attempts: 4,
      retry_delay_ms: 5_000,
      retry_factor: 2,
      retry_longest_ms: 60_000,
      on_crash: 'fail',
    },
  ]);
});

test('a script that has an open job gets no second one', async () => {
  const { db, workerId } = await enqueue(['hourly/a']);
  const again = enqueueScripts(db, [makeScript('hourly/a')], {
    workerId,
    scheduledFor: AT,
    at: AT,
  });
  await expect(again).rejects.toThrow('UNIQUE constraint failed: jobs.name');
});

test('a claim adds the run that stands for the attempt, before any process is there', async () => {
  const { root, claim, workerId } = await claimFirst();
  expect(claim).toMatchObject({ id: 1, attempt: 1, startedAt: AT + 5 });
  expect(queryLog(root, 'select state, attempts, claimed_by, claim_token from jobs')).toEqual([
    { state: 'running', attempts: 1, claimed_by: workerId, claim_token: claim.token },
  ]);
  expect(queryLog(root, 'select * from runs')).toEqual([
    expect.objectContaining({
      id: claim.runId,
      job_id: claim.id,
      worker_id: workerId,
      script: 'hourly/a',
      tier: 'hourly',
      attempt: 1,
      outcome: 'running',
      scheduled_for: AT,
      started_at: AT + 5,
      timeout_ms: TIMEOUT_MS,
      finished_at: null,
      duration_ms: null,
      max_rss_bytes: null,
      pid: null,
      output: null,
      content_hash: 'ab'.repeat(32),
    }),
  ]);
});

test('of two processes that claim the same jobs in the same moment, exactly one gets each', async () => {
  const names = Array.from({ length: 40 }, (_, index) => `hourly/${index}`);
  const { root } = await enqueue(names);
  const claimers = [1, 2].map(() => startNode([claimAll, root]));
  const claims: number[][] = [];
  for (const { ended } of claimers) {
    const { status, stdout, stderr } = await ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    claims.push(JSON.parse(stdout));
  }
  expect(claims.flat().toSorted((one, other) => one - other)).toEqual(
    names.map((_, index) => index + 1),
  );
  expect(queryLog(root, 'select count(*) as runs, max(attempt) as attempt from runs')).toEqual([
    { runs: 40, attempt: 1 },
  ]);
});

test('the process of a run is recorded beside it', async () => {
  const { root, db, claim } = await claimFirst();
  await recordProgress(db, claim.runId, { pid: 4711, startTicks: null, maxRssBytes: 5_000_000 });
  expect(queryLog(root, 'select pid, pid_start_ticks, max_rss_bytes from runs')).toEqual([
    { pid: 4711, pid_start_ticks: null, max_rss_bytes: 5_000_000 },
  ]);
});

test('what is told of a run that has ended meanwhile changes nothing', async () => {
  const { root, db, claim, workerId, end } = await claimFirst();
  await finishJob(db, end(), { workerId });
  await recordProgress(db, claim.runId, { pid: 4711, startTicks: null, maxRssBytes: 1 });
  expect(queryLog(root, 'select pid, max_rss_bytes from runs')).toEqual([
    { pid: null, max_rss_bytes: makeFinishedRun().max_rss_bytes },
  ]);
});

test('a run that succeeded finishes its job', async () => {
  const { root, db, claim, workerId, end } = await claimFirst();
  expect(await finishJob(db, end(), { workerId })).toEqual({ state: 'finished' });
  expect(queryLog(root, 'select state, finished_at, claim_token, reason from jobs')).toEqual([
    { state: 'finished', finished_at: 2_000, claim_token: null, reason: null },
  ]);
  expect(queryLog(root, 'select outcome, duration_ms, output from runs')).toEqual([
    { outcome: 'succeeded', duration_ms: 12.5, output: 'hi\n' },
  ]);
  expect(queryLog(root, 'select event, run_id, detail from activity order by id desc')[0]).toEqual({
    event: 'job-finished',
    run_id: claim.runId,
    detail: null,
  });
});

test.each(['failed', 'timed-out', 'killed', 'not-started'] as const)(
  'a run that is %s fails its job, with the reason',
  async (outcome) => {
    const { root, db, workerId, end } = await claimFirst();
    await finishJob(db, end({ outcome, reason: 'exit code 3' }), { workerId });
    expect(queryLog(root, 'select state, reason from jobs')).toEqual([
      { state: 'failed', reason: 'exit code 3' },
    ]);
    expect(queryLog(root, 'select event, detail from activity order by id desc')[0]).toEqual({
      event: 'job-failed',
      detail: 'exit code 3',
    });
  },
);

test('finishing with a claim that was lost changes nothing', async () => {
  const { root, db, workerId, end } = await claimFirst();
  await db.updateTable('jobs').set({ claim_token: 'of somebody else' }).execute();
  const rows = 'select jobs.*, runs.* from jobs, runs';
  const before = [queryLog(root, rows), queryLog(root, 'select * from activity')];
  expect(await finishJob(db, end(), { workerId })).toBeNull();
  expect([queryLog(root, rows), queryLog(root, 'select * from activity')]).toEqual(before);
});

test('a job cannot be finished twice', async () => {
  const { root, db, workerId, end } = await claimFirst();
  await finishJob(db, end(), { workerId });
  expect(await finishJob(db, end({ outcome: 'failed' }), { workerId })).toBeNull();
  expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'succeeded' }]);
});

test('a job with tries left waits for its next one, and can be claimed again', async () => {
  const { root, db, jobs, workerId, end } = await claimFirst(['hourly/a'], { retries: 1 });
  const failed = end({ outcome: 'failed', finished_at: AT, reason: 'exit code 3' });
  const runAt = AT + 60_000;
  expect(await finishJob(db, failed, { workerId })).toEqual({ state: 'retrying', runAt });
  const columns = 'state, run_at, claimed_by, claim_token, finished_at, reason';
  expect(queryLog(root, `select ${columns} from jobs`)).toEqual([
    {
      state: 'retrying',
      run_at: runAt,
      claimed_by: null,
      claim_token: null,
      finished_at: null,
      reason: 'exit code 3',
    },
  ]);
  const claiming = { workerId, at: runAt, timeoutMs: TIMEOUT_MS };
  const again = (await claimJob(db, jobs[0] as never, claiming)) as Claim;
  expect(again.attempt).toBe(2);
  expect(await finishJob(db, { ...failed, claim: again }, { workerId })).toEqual({
    state: 'failed',
  });
  const told = `select event, run_id from activity where event like 'job-%' order by id`;
  expect(queryLog(root, told)).toEqual([
    { event: 'job-queued', run_id: null },
    { event: 'job-running', run_id: 1 },
    { event: 'job-retrying', run_id: 1 },
    { event: 'job-running', run_id: 2 },
    { event: 'job-failed', run_id: 2 },
  ]);
});

test('jobs are cancelled with the reason; what runs is left alone', async () => {
  const { root, db, workerId } = await claimFirst(['hourly/a', 'hourly/b', 'hourly/c']);
  const why = { workerId, at: AT + 10, reason: 'told to stop' };
  expect(await cancelJobs(db, [1, 2], why)).toBe(1);
  expect(await cancelJobs(db, [1, 2], why)).toBe(0);
  expect(await cancelJobs(db, [], why)).toBe(0);
  expect(queryLog(root, 'select name, state, finished_at, reason from jobs order by id')).toEqual([
    { name: 'hourly/a', state: 'running', finished_at: null, reason: null },
    { name: 'hourly/b', state: 'cancelled', finished_at: AT + 10, reason: 'told to stop' },
    { name: 'hourly/c', state: 'queued', finished_at: null, reason: null },
  ]);
  const cancelled = `select job_id, detail from activity where event = 'job-cancelled'`;
  expect(queryLog(root, cancelled)).toEqual([{ job_id: 2, detail: 'told to stop' }]);
});

test('a job that was cancelled cannot be claimed', async () => {
  const { db, jobs, workerId } = await enqueue(['hourly/a']);
  await cancelJobs(db, [1], { workerId, at: AT, reason: 'told to stop' });
  const claiming = { workerId, at: AT, timeoutMs: TIMEOUT_MS };
  expect(await claimJob(db, jobs[0] as never, claiming)).toBeNull();
});

test('a job that was deferred stays open, with the reason, until it is claimed', async () => {
  const { root, db, jobs, workerId } = await enqueue(['hourly/a', 'hourly/b']);
  await deferJobs(db, [1], { workerId, at: AT + 10, reason: 'no time left' });
  expect(queryLog(root, 'select state, reason from jobs order by id')).toEqual([
    { state: 'queued', reason: 'no time left' },
    { state: 'queued', reason: null },
  ]);
  const told = `select job_id, detail from activity where event = 'job-deferred'`;
  expect(queryLog(root, told)).toEqual([{ job_id: 1, detail: 'no time left' }]);
  await claimJob(db, jobs[0] as never, { workerId, at: AT, timeoutMs: TIMEOUT_MS });
  expect(queryLog(root, 'select state, reason from jobs where id = 1')).toEqual([
    { state: 'running', reason: null },
  ]);
});
