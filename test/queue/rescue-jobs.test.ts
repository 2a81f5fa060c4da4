import { expect, test } from 'vitest';
import { claimJob } from '../../src/queue/claim-job.ts';
import { enqueueScripts } from '../../src/queue/enqueue-scripts.ts';
import { finishJob } from '../../src/queue/finish-job.ts';
import { type EndLostRun, rescueJobs } from '../../src/queue/rescue-jobs.ts';
import { makeFinishedRun } from '../support/finished-run.ts';
import { queryLog } from '../support/open-log.ts';
import { makeScript } from '../support/plain-script.ts';
import { explainQueries } from '../support/query-plan.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { NO_SUCH_PID, writeLog } from '../support/written-log.ts';

const AT = Date.UTC(2026, 10, 1, 12);

const crash: EndLostRun = async ({ runner }) =>
  makeFinishedRun({
    outcome: 'crashed',
    finished_at: AT + 100,
    reason: `the runner (${runner}) died while it ran`,
  });

/** A worker that died in the second of three scripts of each of two tiers. */
async function makeDeadPass() {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  for (const tier of ['hourly', 'daily']) {
    const workerId = await log.addPass(tier, AT, { state: 'crashed' });
    const scripts = ['a', 'b', 'c'].map((name) => makeScript(`${tier}/${name}`));
    const jobs = await enqueueScripts(log.db, scripts, { workerId, scheduledFor: AT, at: AT });
    const first = await claimJob(log.db, jobs[0] as never, workerId, AT);
    await finishJob(log.db, first as never, workerId, makeFinishedRun({ finished_at: AT }));
    await claimJob(log.db, jobs[1] as never, workerId, AT);
  }
  const workerId = await log.addPass('hourly', AT + 100, { state: 'running' });
  return { ...log, root, rescue: { workerId, tier: 'hourly', at: AT + 100 } };
}

const states = `select jobs.name, jobs.state, runs.outcome, runs.finished_at
  from jobs left join runs on runs.job_id = jobs.id where jobs.tier = ? order by jobs.id`;

test('what a dead worker ran has crashed, what it had not begun is cancelled', async () => {
  const { root, db, rescue } = await makeDeadPass();
  await rescueJobs(db, rescue, crash);
  expect(queryLog(root, states, 'hourly')).toEqual([
    { name: 'hourly/a', state: 'finished', outcome: 'succeeded', finished_at: AT },
    { name: 'hourly/b', state: 'failed', outcome: 'crashed', finished_at: AT + 100 },
    { name: 'hourly/c', state: 'cancelled', outcome: null, finished_at: null },
  ]);
  const [crashed] = queryLog<{ reason: string }>(
    root,
    `select reason from runs where outcome = 'crashed'`,
  );
  expect(crashed?.reason).toMatch(
    new RegExp(`^the runner \\(pid ${NO_SUCH_PID} on .+\\) died while it ran$`),
  );
  const told = `select event, job_id, worker_id from activity where at = ? and job_id is not null`;
  expect(queryLog(root, told, AT + 100)).toEqual([
    { event: 'job-failed', job_id: 2, worker_id: rescue.workerId },
    { event: 'job-cancelled', job_id: 3, worker_id: rescue.workerId },
  ]);
});

test('a run that outlived its runner stays open, and its job with it', async () => {
  const { root, db, rescue } = await makeDeadPass();
  const { ended, alive } = await rescueJobs(db, rescue, async () => null);
  expect(ended).toEqual([]);
  expect(alive).toMatchObject([{ id: 2, script: 'hourly/b', pid: null, token: '1:1' }]);
  expect(queryLog(root, states, 'hourly')).toMatchObject([
    { name: 'hourly/a', state: 'finished' },
    { name: 'hourly/b', state: 'running', outcome: 'running', finished_at: null },
    { name: 'hourly/c', state: 'cancelled' },
  ]);
});

test('another tier’s jobs are left to who takes that tier', async () => {
  const { root, db, rescue } = await makeDeadPass();
  const before = queryLog(root, states, 'daily');
  await rescueJobs(db, rescue, crash);
  expect(queryLog(root, states, 'daily')).toEqual(before);
});

test('rescuing again changes nothing', async () => {
  const { root, db, rescue } = await makeDeadPass();
  await rescueJobs(db, rescue, crash);
  const before = queryLog(root, 'select * from activity');
  await rescueJobs(db, { ...rescue, at: AT + 200 }, crash);
  expect(queryLog(root, 'select * from activity')).toEqual(before);
});

test('a late worker cannot end a run that was rescued from it', async () => {
  const { root, db, rescue } = await makeDeadPass();
  const late = { id: 2, token: '1:1', runId: 2, startedAt: AT, attempt: 1 };
  expect(queryLog(root, 'select claim_token from jobs where id = 2')).toEqual([
    { claim_token: late.token },
  ]);
  await rescueJobs(db, rescue, crash);
  expect(await finishJob(db, late as never, 1, makeFinishedRun())).toBe(false);
  expect(queryLog(root, 'select outcome from runs where id = 2')).toEqual([{ outcome: 'crashed' }]);
});

test('looking for what is to be rescued reads no table as a whole', async () => {
  const { state, rescue } = await makeDeadPass();
  const plans = await explainQueries(state.database, (db) => rescueJobs(db, rescue, crash));
  const reads = plans.filter((plan) => /jobs_open|runs_running/.test(plan));
  expect(reads.length).toBeGreaterThanOrEqual(2);
  for (const plan of plans) expect(plan).not.toMatch(/SCAN (?!runs USING INDEX runs_running)/);
});
