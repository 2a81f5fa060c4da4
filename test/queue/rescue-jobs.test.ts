import { expect, test } from 'vitest';
import { enqueueScripts } from '../../src/queue/add/scripts.ts';
import { claimJobs } from '../../src/queue/claim/claim.ts';
import { type Claim, claimJob } from '../../src/queue/claim/script-claim.ts';
import { policyOf } from '../../src/queue/settle/retry-policy.ts';
import { finishJob } from '../../src/queue/settle/script-run.ts';
import { mayHaveLost } from '../../src/recovery/needed.ts';
import {
  type EndLostRun,
  type LostEnd,
  type OpenRun,
  rescueJobs,
  selectOpenRuns,
} from '../../src/recovery/orphans.ts';
import type { ScriptOptions } from '../../src/settings/readers.ts';

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

/** A job of the queue whose worker has died under it; how its lost run is ended. */
async function makeLostQueueRun(maxAttempts: number) {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const workerId = await log.addPass('hourly', AT, { state: 'crashed' });
  await log.db.insertInto('jobs').values({ name: 'mail/a', run_at: AT, created_at: AT }).execute();
  const selection = { groupLimit: null, isWanted: () => true, isFused: () => false };
  const policy = policyOf({ retries: maxAttempts - 1 });
  const handlerOf = () => ({ policy, timeoutMs: 7_000, contentHash: null, isWarm: true });
  const claiming = { workerId, at: AT, defaultLeaseMs: 60_000, handlerOf };
  await claimJobs(log.db, async () => selection, claiming, 1);
  const rescue = async (end: LostEnd) => {
    const lost = await selectOpenRuns(log.db);
    expect(lost).toMatchObject([
      { isQueued: true, script: 'queue/mail/a', timeoutMs: 7_000, claim: { id: 1, attempt: 1 } },
    ]);
    return await rescueJobs(log.db, lost, { at: AT + 100, mayTerminate: true }, async () => end);
  };
  return { root, rescue };
}

const finished = { run: makeFinishedRun({ finished_at: AT + 50 }), result: null, ask: null };
const failedRun = makeFinishedRun({ outcome: 'failed', exit_code: 1, reason: 'exit code 1' });
const releasedRun = { ...failedRun, outcome: 'released' } as const;
const crashedRun = makeFinishedRun({ outcome: 'crashed', exit_code: null, reason: 'it died' });

test.each<[string, LostEnd, object, string]>([
  [
    'finished, with its result',
    { ...finished, result: '{"sent":true}' },
    { state: 'finished', result: '{"sent":true}', finished_at: AT + 100, crashes: 0 },
    'job-finished',
  ],
  [
    'asked for another try',
    { ...finished, run: releasedRun, ask: { kind: 'retry', delayMs: 5_000, data: '[7]' } },
    { state: 'retrying', run_at: AT + 5_100, data: '[7]', attempts: 0, releases: 1 },
    'job-released',
  ],
  [
    'asked to fail',
    { ...finished, run: failedRun, ask: { kind: 'fail', reason: 'no such address' } },
    { state: 'failed', reason: 'no such address' },
    'job-failed',
  ],
  [
    'died with its worker, and has one try only',
    { ...finished, run: crashedRun },
    { state: 'retrying', run_at: AT + 60_100, attempts: 1, crashes: 1 },
    'job-retrying',
  ],
])('a run of the queue that %s', async (_, end, job, event) => {
  const { root, rescue } = await makeLostQueueRun(1);
  expect(await rescue(end)).toMatchObject({ ended: [{ jobId: 1 }], alive: [] });
  expect(queryLog(root, 'select * from jobs')).toMatchObject([
    { ...job, claim_token: null, leased_until: null },
  ]);
  const { outcome } = end.run;
  expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome }]);
  const told = 'select event, worker_id, run_id from activity order by id desc limit 1';
  expect(queryLog(root, told)).toEqual([{ event, worker_id: null, run_id: 1 }]);
});

test('a run whose end the log refuses has failed, and keeps no other from being rescued', async () => {
  const { root, rescue } = await makeLostQueueRun(1);
  const ask = { kind: 'retry', delayMs: 9e15 } as const;
  expect(await rescue({ ...finished, run: releasedRun, ask })).toMatchObject({ ended: [{}] });
  expect(queryLog(root, 'select state from jobs')).toEqual([{ state: 'failed' }]);
});

test('a run that cannot be recorded at all is told of, and the others are rescued', async () => {
  const { root, db, rescue } = await makeDeadPass();
  const told: string[] = [];
  const [lost] = await selectOpenRuns(db);
  const broken = { ...(lost as OpenRun), id: 7 };
  const end: EndLostRun = async (run) => {
    const known = await crash(run);
    // No driver takes an object for a text.
    return run.id === 7 && known
      ? { ...known, run: { ...known.run, reason: {} as string } }
      : known;
  };
  const onRefused = (sentence: string) => told.push(sentence);
  const rescued = await rescueJobs(db, [broken, lost as OpenRun], { ...rescue, onRefused }, end);
  expect(rescued.ended).toEqual([lost]);
  expect(told).toEqual([expect.stringMatching(/^the end of run 7 cannot be recorded: /)]);
  expect(queryLog(root, states)[1]).toMatchObject({ state: 'failed', outcome: 'crashed' });
});
