import { expect, test } from 'vitest';
import type { ScriptOptions } from '../../src/config/script-options.ts';
import { type Claim, claimJob } from '../../src/queue/claim-job.ts';
import { enqueueScripts } from '../../src/queue/enqueue-scripts.ts';
import { finishJob } from '../../src/queue/finish-job.ts';
import { mayHaveLost } from '../../src/queue/may-have-lost.ts';
import { type EndLostRun, rescueJobs, selectOpenRuns } from '../../src/queue/rescue-jobs.ts';
import { policyOf } from '../../src/queue/retry-policy.ts';
import { makeFinishedRun } from '../support/finished-run.ts';
import { queryLog } from '../support/open-log.ts';
import { makeScript } from '../support/plain-script.ts';
import { explainQueries } from '../support/query-plan.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { NO_SUCH_PID, writeLog } from '../support/written-log.ts';

const AT = Date.UTC(2026, 10, 1, 12);

const crash: EndLostRun = async ({ runnerPid }) => ({
  run: makeFinishedRun({ outcome: 'crashed', finished_at: AT + 100, reason: `${runnerPid} died` }),
  result: null,
  ask: null,
});

/** A worker that died in the second of three scripts. */
async function makeDeadPass(options: ScriptOptions = {}) {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const { db } = log;
  const workerId = await log.addPass('hourly', AT, { state: 'crashed' });
  const scripts = ['a', 'b', 'c'].map((name) => makeScript(`hourly/${name}`, options));
  const jobs = await enqueueScripts(db, scripts, { workerId, scheduledFor: AT, at: AT });
  const claiming = { workerId, at: AT, timeoutMs: 60_000 };
  const first = (await claimJob(db, jobs[0] as never, claiming)) as Claim;
  const run = makeFinishedRun({ finished_at: AT });
  const policy = policyOf(options);
  await finishJob(db, { claim: first, policy, run, isRetryable: true }, { workerId });
  const claim = (await claimJob(db, jobs[1] as never, claiming)) as Claim;
  return { ...log, root, claim, policy, rescue: { at: AT + 100, mayTerminate: true } };
}

const states = `select jobs.name, jobs.state, runs.outcome, runs.finished_at
  from jobs left join runs on runs.job_id = jobs.id order by jobs.id`;

test('what a dead worker ran has crashed; what it had not begun waits for the next', async () => {
  const { root, db, rescue } = await makeDeadPass();
  await rescueJobs(db, await selectOpenRuns(db), rescue, crash);
  expect(queryLog(root, states)).toEqual([
    { name: 'hourly/a', state: 'finished', outcome: 'succeeded', finished_at: AT },
    { name: 'hourly/b', state: 'failed', outcome: 'crashed', finished_at: AT + 100 },
    { name: 'hourly/c', state: 'queued', outcome: null, finished_at: null },
  ]);
  expect(queryLog(root, `select reason from runs where outcome = 'crashed'`)).toEqual([
    { reason: `${NO_SUCH_PID} died` },
  ]);
  const told = `select event, job_id, worker_id from activity where at = ? and job_id is not null`;
  expect(queryLog(root, told, AT + 100)).toEqual([
    { event: 'job-failed', job_id: 2, worker_id: null },
  ]);
});

test.each([
  [{ retries: 1 }, 'retrying', 'job-retrying'],
  [{ onCrash: 'retry' }, 'retrying', 'job-retrying'],
  [{ retries: 1, onCrash: 'fail' }, 'failed', 'job-failed'],
  [{ retries: 1, onCrash: 'skip' }, 'cancelled', 'job-cancelled'],
] as const)('what follows a crash is told by the job itself: %j', async (options, state, event) => {
  const { root, db, rescue } = await makeDeadPass(options);
  await rescueJobs(db, await selectOpenRuns(db), rescue, crash);
  expect(queryLog(root, 'select state, attempts from jobs where id = 2')).toEqual([
    { state, attempts: 1 },
  ]);
  const told = 'select event from activity where job_id = 2 order by id desc limit 1';
  expect(queryLog(root, told)).toEqual([{ event }]);
});

test('a run that outlived its runner stays open, and its job with it', async () => {
  const { root, db, rescue } = await makeDeadPass();
  const { ended, alive } = await rescueJobs(db, await selectOpenRuns(db), rescue, async () => null);
  expect(ended).toEqual([]);
  expect(alive).toMatchObject([
    {
      id: 2,
      script: 'hourly/b',
      pid: null,
      timeoutMs: 60_000,
      claim: { token: '1:1', attempt: 1 },
    },
  ]);
  expect(queryLog(root, states)).toMatchObject([
    { name: 'hourly/a', state: 'finished' },
    { name: 'hourly/b', state: 'running', outcome: 'running', finished_at: null },
    { name: 'hourly/c', state: 'queued' },
  ]);
});

test('rescuing again changes nothing', async () => {
  const { root, db, rescue } = await makeDeadPass();
  const lost = await selectOpenRuns(db);
  await rescueJobs(db, lost, rescue, crash);
  const before = queryLog(root, 'select * from activity');
  const { ended } = await rescueJobs(db, lost, { ...rescue, at: AT + 200 }, crash);
  expect(ended).toEqual([]);
  expect(queryLog(root, 'select * from activity')).toEqual(before);
  expect(await selectOpenRuns(db)).toEqual([]);
});

test('a late worker cannot end a run that was rescued from it', async () => {
  const { root, db, rescue, claim, policy } = await makeDeadPass();
  await rescueJobs(db, await selectOpenRuns(db), rescue, crash);
  const late = { claim, policy, run: makeFinishedRun(), isRetryable: true };
  expect(await finishJob(db, late, { workerId: 1 })).toBeNull();
  expect(queryLog(root, 'select outcome from runs where id = 2')).toEqual([{ outcome: 'crashed' }]);
});

test('there may be something lost while a run or a worker is open', async () => {
  const { db, rescue, addPass } = await makeDeadPass();
  expect(await mayHaveLost(db)).toBe(true);
  await rescueJobs(db, await selectOpenRuns(db), rescue, crash);
  expect(await mayHaveLost(db)).toBe(false);
  await addPass('daily', AT, { state: 'running' });
  expect(await mayHaveLost(db)).toBe(true);
});

test('looking for what is to be rescued reads no table as a whole', async () => {
  const { state, rescue } = await makeDeadPass();
  const plans = await explainQueries(state.database, async (db) => {
    await mayHaveLost(db);
    await rescueJobs(db, await selectOpenRuns(db), rescue, crash);
  });
  const reads = plans.filter((plan) => /runs_running/.test(plan));
  expect(reads.length).toBeGreaterThanOrEqual(2);
  const partial =
    /SCAN (?!runs USING (?:COVERING )?INDEX runs_running|workers USING (?:COVERING )?INDEX workers_one_running)/;
  for (const plan of plans) expect(plan.replace('SCAN CONSTANT ROW', '')).not.toMatch(partial);
});
