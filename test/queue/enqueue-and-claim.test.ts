import { expect, test } from 'vitest';
import { cancelQueuedJobs } from '../../src/queue/cancel-jobs.ts';
import { type ClaimedJob, claimJob, recordRunProcess } from '../../src/queue/claim-job.ts';
import { enqueueScripts } from '../../src/queue/enqueue-scripts.ts';
import { finishJob } from '../../src/queue/finish-job.ts';
import { makeFinishedRun } from '../support/finished-run.ts';
import { queryLog } from '../support/open-log.ts';
import { makeScript } from '../support/plain-script.ts';
import { startNode } from '../support/start-command.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

const claimAll = new URL('claim-all.child.ts', import.meta.url).pathname;
const AT = Date.UTC(2026, 10, 1, 12);

/** A root's log with one worker, and the jobs of these scripts in it. */
async function enqueue(names: readonly string[]) {
  const root = makeTemporaryRoot();
  const { db, addPass, state } = await writeLog(root);
  const workerId = await addPass('hourly', AT, { state: 'running' });
  const scripts = names.map((name) => makeScript(name));
  const jobs = await enqueueScripts(db, scripts, { workerId, scheduledFor: AT, at: AT });
  return { root, db, state, workerId, jobs };
}

async function claimFirst(names: readonly string[] = ['hourly/a']) {
  const all = await enqueue(names);
  const job = await claimJob(all.db, all.jobs[0] as never, all.workerId, AT + 5);
  return { ...all, job: job as ClaimedJob };
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

test('retries are more attempts', async () => {
  const { db, workerId } = await enqueue([]);
  const script = makeScript('hourly/a', { retries: 3 });
  await enqueueScripts(db, [script], { workerId, scheduledFor: null, at: AT });
  expect(await db.selectFrom('jobs').select(['attempts', 'max_attempts']).execute()).toEqual([
    { attempts: 0, max_attempts: 4 },
  ]);
});

test('a claim adds the run that stands for the attempt, before any process is there', async () => {
  const { root, job, workerId } = await claimFirst();
  expect(job).toMatchObject({ id: 1, attempt: 1, startedAt: AT + 5 });
  expect(queryLog(root, 'select state, attempts, claimed_by, claim_token from jobs')).toEqual([
    { state: 'running', attempts: 1, claimed_by: workerId, claim_token: job.token },
  ]);
  expect(queryLog(root, 'select * from runs')).toEqual([
    expect.objectContaining({
      id: job.runId,
      job_id: job.id,
      worker_id: workerId,
      script: 'hourly/a',
      tier: 'hourly',
      attempt: 1,
      outcome: 'running',
      scheduled_for: AT,
      started_at: AT + 5,
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
  const { root, db, job } = await claimFirst();
  await recordRunProcess(db, job.runId, { pid: 4711, startTicks: null });
  expect(queryLog(root, 'select pid, pid_start_ticks from runs')).toEqual([
    { pid: 4711, pid_start_ticks: null },
  ]);
});

test('a run that succeeded finishes its job', async () => {
  const { root, db, job, workerId } = await claimFirst();
  expect(await finishJob(db, job, workerId, makeFinishedRun())).toBe(true);
  expect(queryLog(root, 'select state, finished_at, claim_token, reason from jobs')).toEqual([
    { state: 'finished', finished_at: 2_000, claim_token: null, reason: null },
  ]);
  expect(queryLog(root, 'select outcome, duration_ms, output from runs')).toEqual([
    { outcome: 'succeeded', duration_ms: 12.5, output: 'hi\n' },
  ]);
  expect(queryLog(root, 'select event, run_id, detail from activity order by id desc')[0]).toEqual({
    event: 'job-finished',
    run_id: job.runId,
    detail: null,
  });
});

test.each(['failed', 'timed-out', 'killed', 'not-started'] as const)(
  'a run that is %s fails its job, with the reason',
  async (outcome) => {
    const { root, db, job, workerId } = await claimFirst();
    await finishJob(db, job, workerId, makeFinishedRun({ outcome, reason: 'exit code 3' }));
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
  const { root, db, job, workerId } = await claimFirst();
  await db.updateTable('jobs').set({ claim_token: 'of somebody else' }).execute();
  const rows = 'select jobs.*, runs.* from jobs, runs';
  const before = [queryLog(root, rows), queryLog(root, 'select * from activity')];
  expect(await finishJob(db, job, workerId, makeFinishedRun())).toBe(false);
  expect([queryLog(root, rows), queryLog(root, 'select * from activity')]).toEqual(before);
});

test('a job cannot be finished twice', async () => {
  const { root, db, job, workerId } = await claimFirst();
  await finishJob(db, job, workerId, makeFinishedRun());
  const late = makeFinishedRun({ outcome: 'failed', reason: 'too late' });
  expect(await finishJob(db, job, workerId, late)).toBe(false);
  expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'succeeded' }]);
});

test('queued jobs of a tier are cancelled with the reason; what runs is left alone', async () => {
  const { root, db, workerId } = await claimFirst(['hourly/a', 'hourly/b', 'hourly/c']);
  const daily = [makeScript('daily/a')];
  await enqueueScripts(db, daily, { workerId, scheduledFor: null, at: AT });
  const at = AT + 10;
  expect(await cancelQueuedJobs(db, 'hourly', { workerId, at, reason: 'told to stop' })).toBe(2);
  expect(await cancelQueuedJobs(db, 'hourly', { workerId, at, reason: 'again' })).toBe(0);
  expect(queryLog(root, 'select name, state, finished_at, reason from jobs order by id')).toEqual([
    { name: 'hourly/a', state: 'running', finished_at: null, reason: null },
    { name: 'hourly/b', state: 'cancelled', finished_at: at, reason: 'told to stop' },
    { name: 'hourly/c', state: 'cancelled', finished_at: at, reason: 'told to stop' },
    { name: 'daily/a', state: 'queued', finished_at: null, reason: null },
  ]);
  const cancelled = `select job_id, detail from activity where event = 'job-cancelled'`;
  expect(queryLog(root, cancelled)).toEqual([
    { job_id: 2, detail: 'told to stop' },
    { job_id: 3, detail: 'told to stop' },
  ]);
});

test('a job that was cancelled cannot be claimed', async () => {
  const { db, jobs, workerId } = await enqueue(['hourly/a']);
  await cancelQueuedJobs(db, 'hourly', { workerId, at: AT, reason: 'told to stop' });
  expect(await claimJob(db, jobs[0] as never, workerId, AT)).toBeNull();
});
