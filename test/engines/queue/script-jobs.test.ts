import { expect, test } from 'vitest';
import { deferScripts } from '../../../src/queue/add/scripts.ts';
import { cancelWaiting } from '../../../src/queue/settle/change-by-event.ts';
import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import { settleRuns } from '../../../src/queue/settle/settle.ts';
import type { ScriptOptions } from '../../../src/settings/settings.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import type { RunStart } from '../../../src/store/shared/run-rows.ts';
import type { ClaimRef } from '../../../src/store/statements/runs.ts';
import type { JobState } from '../../../src/store/words.ts';
import { readAnswers, startNode } from '../../support/command.ts';
import { makeFinishedRun, queryLog } from '../../support/log.ts';
import { enqueueScripts } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeScript } from '../../support/run.ts';
import { writeLog } from '../../support/written-log.ts';

const child = new URL('claim.child.ts', import.meta.url).pathname;
const AT = Date.UTC(2026, 10, 1, 12);
const HOUR_MS = 3_600_000;

/** A root's log with one worker, and the jobs of these scripts in it. */
async function open(names: readonly string[] = ['hourly/a'], options: ScriptOptions = {}) {
  const root = makeTemporaryRoot();
  const { store, addPass } = await writeLog(root);
  const workerId = await addPass('hourly', AT, { state: 'running' });
  const scripts = names.map((name) => makeScript(name, options));
  const enqueue = (at = AT, some = scripts) =>
    store.transaction((session) =>
      enqueueScripts(
        session,
        some.map((script) => ({ script, scheduledFor: at })),
        at,
      ),
    );
  let claims = 0;
  const claim = async (id: number, at = AT, state: 'claimed' | 'running' = 'claimed') => {
    const token = `${workerId}.${++claims}`;
    const asked = [{ id, token, state, at }];
    const [taken] = await store.transaction((session) => session.scriptJobs.claim(asked));
    return taken === undefined ? null : { id, token };
  };
  const settle = async (ref: ClaimRef, end: Partial<FinishedRun> = {}) => {
    const [job] = queryLog<{ name: string; attempts: number }>(
      root,
      'select name, attempts from jobs where id = ?',
      ref.id,
    );
    const { name = '', attempts = 0 } = job ?? {};
    const start: RunStart = {
      ...{ jobId: ref.id, workerId, key: ref.token, script: name, contentHash: 'ab'.repeat(32) },
      ...{ attempt: attempts + 1, scheduledFor: AT, startedAt: AT + 5, timeoutMs: 60_000 },
    };
    const run = {
      ...{ claim: ref, start, runId: null, result: null, decision: null, isRetryable: true },
      ...{ policy: policyOf(options), end: makeFinishedRun({ finished_at: AT + 20, ...end }) },
    };
    const [settled] = await store.transaction((session) => settleRuns(session, [run], { missedCap: 0 }));
    return settled?.decision ?? null;
  };
  return { root, store, workerId, scripts, jobs: await enqueue(), enqueue, claim, settle };
}

const jobColumns = 'name, state, attempts, claim_token, finished_at, reason';

test('each script becomes one job, in the order given', async () => {
  const names = ['hourly/b', 'hourly/a', 'hourly/10', 'hourly/2'];
  const { root, jobs } = await open(names);
  expect(jobs.map((job) => job.script.name)).toEqual(names);
  expect(jobs.map((job) => job.id)).toEqual([1, 2, 3, 4]);
  const columns = 'id, name, tier, state, ready, scheduled_for';
  expect(queryLog(root, `select ${columns} from jobs order by id`)).toEqual(
    names.map((name, index) => ({
      ...{ id: index + 1, name, tier: 'hourly', state: 'queued', ready: null, scheduled_for: AT },
    })),
  );
});

test('no scripts are no jobs, and three hundred are enqueued at once', async () => {
  expect((await open([])).jobs).toEqual([]);
  const names = Array.from({ length: 300 }, (_, index) => `hourly/${index}`);
  const { root, jobs } = await open(names);
  expect(jobs.at(-1)?.script.name).toBe('hourly/299');
  expect(queryLog(root, 'select count(*) as jobs from jobs')).toEqual([{ jobs: 300 }]);
});

test('a script keeps its row: the next pass begins it anew', async () => {
  const { root, jobs, claim, settle, enqueue, store } = await open();
  const [{ id } = { id: 0 }] = jobs;
  await settle((await claim(id)) as ClaimRef, { outcome: 'failed', reason: 'exit code 3' });
  const [before] = queryLog(root, `select created_at, ${jobColumns} from jobs`);
  expect(before).toMatchObject({ state: 'failed', attempts: 1, finished_at: AT + 20 });
  expect(await store.scriptJobs.open()).toEqual([]);
  expect((await enqueue(AT + HOUR_MS)).map((job) => job.id)).toEqual([id]);
  expect(queryLog(root, `select created_at, scheduled_for, run_at, ${jobColumns} from jobs`)).toEqual([
    {
      ...{ name: 'hourly/a', state: 'queued', attempts: 0, claim_token: null, reason: null },
      ...{ finished_at: null, created_at: AT, scheduled_for: AT + HOUR_MS, run_at: AT + HOUR_MS },
    },
  ]);
  expect(await store.scriptJobs.open('hourly')).toMatchObject([{ id }]);
  expect(await store.scriptJobs.open('daily')).toEqual([]);
  expect(await store.scriptJobs.ofTier('hourly')).toMatchObject([{ id }]);
});

test('open jobs come in their order: further tries after first ones', async () => {
  const names = ['hourly/a', 'hourly/b', 'daily/c'];
  const { jobs, claim, settle, store } = await open(names, { retries: 1 });
  await settle((await claim(jobs[0]?.id ?? 0)) as ClaimRef, { outcome: 'failed' });
  const openNames = async (tier?: string) => (await store.scriptJobs.open(tier)).map(({ name }) => name);
  expect(await openNames()).toEqual(['hourly/b', 'daily/c', 'hourly/a']);
  expect(await openNames('hourly')).toEqual(['hourly/b', 'hourly/a']);
});

test('a claim begins nothing, has no lease, and is the only one', async () => {
  const { root, jobs, claim, workerId } = await open();
  const [{ id } = { id: 0 }] = jobs;
  expect(await claim(id)).toEqual({ id, token: `${workerId}.1` });
  expect(await claim(id)).toBeNull();
  const columns = `started_at, lease_expires_at, ${jobColumns}`;
  expect(queryLog(root, `select ${columns} from jobs`)).toEqual([
    {
      ...{ name: 'hourly/a', state: 'claimed', attempts: 0, claim_token: `${workerId}.1` },
      ...{ started_at: null, lease_expires_at: null, finished_at: null, reason: null },
    },
  ]);
  expect(queryLog(root, 'select id from runs')).toEqual([]);
});

test('a claim of what begins at once counts as a try', async () => {
  const { root, jobs, claim } = await open();
  await claim(jobs[0]?.id ?? 0, AT + 5, 'running');
  expect(queryLog(root, 'select state, attempts, started_at from jobs')).toEqual([
    { state: 'running', attempts: 1, started_at: AT + 5 },
  ]);
});

test('exactly one of two processes that claim the same jobs at the same moment gets each', async () => {
  const names = Array.from({ length: 40 }, (_, index) => `hourly/${index}`);
  const { root } = await open(names);
  const claimers = [1, 2].map(() => startNode([child, root, '2', 'scripts']));
  const claims = await readAnswers<{ id: number }[]>(claimers);
  const ids = claims.flatMap((own) => own.map(({ id }) => id));
  expect(ids.toSorted((one, other) => one - other)).toEqual(names.map((_, index) => index + 1));
});

test('a run is written with its end, whole', async () => {
  const { root, jobs, claim, settle, workerId } = await open();
  const ref = (await claim(jobs[0]?.id ?? 0)) as ClaimRef;
  expect(await settle(ref)).toEqual({ state: 'finished' });
  expect(queryLog(root, `select started_at, ${jobColumns} from jobs`)).toEqual([
    {
      ...{ name: 'hourly/a', state: 'finished', attempts: 1, claim_token: null, reason: null },
      ...{ started_at: AT + 5, finished_at: AT + 20 },
    },
  ]);
  expect(queryLog(root, 'select * from runs')).toMatchObject([
    {
      ...{ job_id: ref.id, worker_id: workerId, key: ref.token, script: 'hourly/a', attempt: 1 },
      ...{ tier: 'hourly', outcome: 'succeeded', left_job: null, scheduled_for: AT },
      ...{ started_at: AT + 5, finished_at: AT + 20, duration_us: 12_500, output: 'hi\n' },
      ...{ content_hash: 'ab'.repeat(32), pid: null },
    },
  ]);
  const told = 'select event, run_id, detail from activity where job_id = ? order by id';
  expect(queryLog(root, told, ref.id)).toEqual([
    { event: 'run-started', run_id: 1, detail: null },
    { event: 'job-finished', run_id: 1, detail: null },
  ]);
});

test('a name and a content are written down once, with when the content ran first', async () => {
  const { root, jobs, claim, settle, enqueue } = await open();
  const [{ id } = { id: 0 }] = jobs;
  for (let pass = 0; pass < 3; pass += 1) {
    await settle((await claim(id)) as ClaimRef);
    await enqueue(AT + pass * HOUR_MS);
  }
  expect(queryLog(root, 'select name from scripts')).toEqual([{ name: 'hourly/a' }]);
  expect(queryLog(root, 'select content_hash, first_run_at from script_versions')).toEqual([
    { content_hash: 'ab'.repeat(32), first_run_at: AT + 5 },
  ]);
});

test('the process of a run is recorded beside it, until it has ended', async () => {
  const { root, store, jobs, claim, workerId } = await open();
  const ref = (await claim(jobs[0]?.id ?? 0)) as ClaimRef;
  const start = {
    ...{ jobId: ref.id, workerId, key: ref.token, script: 'hourly/a', contentHash: null },
    ...{ attempt: 1, scheduledFor: AT, startedAt: AT, timeoutMs: 60_000 },
  };
  const seen = { pid: 4711, startTicks: 12, maxRssBytes: 5_000_000 };
  const [runId = 0] = await store.runs.start([{ ...start, ...seen }]);
  const columns = 'outcome, timeout_ms, pid, pid_start_ticks, max_rss_bytes, finished_at';
  const row = { outcome: 'running', timeout_ms: 60_000, finished_at: null };
  const shown = () => queryLog(root, `select ${columns} from runs`);
  expect(shown()).toEqual([{ ...row, pid: 4711, pid_start_ticks: 12, max_rss_bytes: 5_000_000 }]);
  await store.runs.progress({ runId, jobId: ref.id }, { pid: 4712, startTicks: null, maxRssBytes: 6_000_000 });
  expect(shown()).toEqual([{ ...row, pid: 4712, pid_start_ticks: null, max_rss_bytes: 6_000_000 }]);
  expect(await store.runs.running(ref.id)).toMatchObject({ id: runId, key: ref.token, pid: 4712 });
  await store.runs.end([{ ...start, runId, end: makeFinishedRun(), leftJob: null }]);
  const ended = shown();
  await store.runs.progress({ runId, jobId: ref.id }, seen);
  expect(shown()).toEqual(ended);
  expect(await store.runs.running(ref.id)).toBeNull();
});

test.each(['failed', 'timed-out', 'killed', 'not-started', 'crashed'] as const)(
  'a run that is %s fails its job, with the reason',
  async (outcome) => {
    const { root, jobs, claim, settle } = await open();
    const ref = (await claim(jobs[0]?.id ?? 0)) as ClaimRef;
    await settle(ref, { outcome, reason: 'exit code 3' });
    expect(queryLog(root, 'select state, reason from jobs')).toEqual([{ state: 'failed', reason: 'exit code 3' }]);
    const told = 'select event, detail from activity where job_id = ? order by id desc limit 1';
    expect(queryLog(root, told, ref.id)).toEqual([{ event: 'job-failed', detail: 'exit code 3' }]);
  },
);

test.each([
  [{ retries: 1 }, 'retrying'],
  [{ onCrash: 'retry' }, 'retrying'],
  [{ retries: 1, onCrash: 'fail' }, 'failed'],
  [{ retries: 1, onCrash: 'skip' }, 'cancelled'],
] as const satisfies readonly [ScriptOptions, JobState][])(
  'what follows a crash is told by the script itself: %j',
  async (options, state) => {
    const { root, jobs, claim, settle } = await open(['hourly/a'], options);
    const ref = (await claim(jobs[0]?.id ?? 0)) as ClaimRef;
    await settle(ref, { outcome: 'crashed', reason: 'its runner died' });
    expect(queryLog(root, 'select state, attempts from jobs')).toEqual([{ state, attempts: 1 }]);
    const told = 'select event from activity where job_id = ? order by id desc limit 1';
    expect(queryLog(root, told, ref.id)).toEqual([{ event: `job-${state}` }]);
  },
);

test('an end with a claim that was lost changes nothing, nor does a second one', async () => {
  const { root, jobs, claim, settle } = await open();
  const ref = (await claim(jobs[0]?.id ?? 0)) as ClaimRef;
  const all = () => ['jobs', 'runs', 'outputs'].map((table) => queryLog(root, `select * from ${table}`));
  const before = all();
  expect(await settle({ ...ref, token: '1.99' })).toBeNull();
  expect(all()).toEqual(before);
  await settle(ref);
  const ended = all();
  expect(await settle(ref, { outcome: 'failed' })).toBeNull();
  expect(all()).toEqual(ended);
});

test('a job with tries left waits for its next one, and can be claimed again', async () => {
  const { root, jobs, claim, settle } = await open(['hourly/a'], { retries: 1 });
  const [{ id } = { id: 0 }] = jobs;
  const failed = { outcome: 'failed', finished_at: AT, reason: 'exit code 3' } as const;
  const runAt = AT + 60_000;
  const decision = await settle((await claim(id)) as ClaimRef, failed);
  expect(decision).toEqual({ state: 'retrying', runAt });
  expect(queryLog(root, `select run_at, ready, ${jobColumns} from jobs`)).toEqual([
    {
      ...{ name: 'hourly/a', state: 'retrying', attempts: 1, claim_token: null, run_at: runAt },
      ...{ finished_at: null, reason: 'exit code 3', ready: null },
    },
  ]);
  const again = (await claim(id, runAt)) as ClaimRef;
  expect(await settle(again, { ...failed, finished_at: runAt + 1 })).toEqual({ state: 'failed' });
  expect(queryLog(root, 'select attempt, left_job from runs order by id')).toEqual([
    { attempt: 1, left_job: 'retrying' },
    { attempt: 2, left_job: 'failed' },
  ]);
});

test('a claim that is released leaves the job as it was', async () => {
  const { root, store, jobs, claim } = await open();
  const before = queryLog(root, 'select * from jobs');
  const ref = (await claim(jobs[0]?.id ?? 0)) as ClaimRef;
  await store.transaction((session) => session.claims.release([ref], AT + 10));
  expect(queryLog(root, 'select * from jobs')).toEqual(before);
});

test('jobs are cancelled with the reason, and cannot be claimed then', async () => {
  const { root, store, jobs, claim } = await open(['hourly/a', 'hourly/b']);
  const why = { at: AT + 10, reason: 'told to stop' };
  await store.transaction((session) => cancelWaiting(session, jobs.slice(1), why));
  await store.transaction((session) => cancelWaiting(session, [], why));
  const columns = 'name, state, finished_at, reason';
  expect(queryLog(root, `select ${columns} from jobs order by id`)).toEqual([
    { name: 'hourly/a', state: 'queued', finished_at: null, reason: null },
    { name: 'hourly/b', state: 'cancelled', finished_at: AT + 10, reason: 'told to stop' },
  ]);
  const cancelled = `select job_id, detail from activity where event = 'job-cancelled'`;
  expect(queryLog(root, cancelled)).toEqual([{ job_id: 2, detail: 'told to stop' }]);
  expect(await claim(2)).toBeNull();
});

test('a job that was deferred stays open, with the reason, until it begins', async () => {
  const { root, store, workerId, jobs, claim, settle } = await open(['hourly/a', 'hourly/b']);
  const why = { workerId, at: AT + 10, reason: 'no time left' };
  await store.transaction((session) => deferScripts(session, jobs.slice(0, 1), why));
  expect(queryLog(root, 'select state, reason from jobs order by id')).toEqual([
    { state: 'queued', reason: 'no time left' },
    { state: 'queued', reason: null },
  ]);
  const told = `select worker_id, job_id, detail from activity where event = 'job-deferred'`;
  expect(queryLog(root, told)).toEqual([{ worker_id: workerId, job_id: 1, detail: 'no time left' }]);
  await settle((await claim(1)) as ClaimRef);
  expect(queryLog(root, 'select state, reason from jobs where id = 1')).toEqual([{ state: 'finished', reason: null }]);
});
