import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Handlers } from '../../../src/discovery/handlers.ts';
import { endUnmeasured, noOutput, type RunEnd } from '../../../src/execution/result/result.ts';
import { openQueue } from '../../../src/index.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { finishWorker } from '../../../src/worker/invocation/invocation.ts';
import { createSelector, type HandlerRun, idleTurn, QueueRecorder } from '../../../src/worker/loop/queue-recorder.ts';
import { startQueueWorker } from '../../../src/worker/pass/work-queue.ts';
import { cronPlace, runCommand } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { addJob, endInPeace, readJobRow, startWaiting, untilState, WITHIN_MS } from '../../support/faults/queue.ts';
import { queryLog } from '../../support/log.ts';
import { openTestQueue } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall, makeScript } from '../../support/run.ts';
import { until } from '../../support/until.ts';
import { writeLog } from '../../support/written-log.ts';

const handlers: Handlers = {
  problem: null,
  names: () => ['a', 'b'],
  find: (name) => makeScript(`queue/${name}`),
  optionsOf: () => ({}),
};

/** The recorder of a worker that has claimed these jobs. */
async function open(names: readonly string[] = ['a', 'a', 'b']) {
  const log = await openTestQueue();
  const call = await makeLoggedCall(log.root);
  const started = await startQueueWorker(call);
  if ('refusal' in started) throw new Error(started.refusal);
  log.clock.at = Date.now() - 1_000;
  await log.queue.addMany(names.map((name) => ({ name })));
  const { store, runner } = call;
  const watch = store.watch();
  const request = { patterns: [], failsUnknown: false };
  const version = () => watch.look();
  const recorder = new QueueRecorder({
    ...{ store, runner, handlers, workerId: started.workerId },
    selector: createSelector({ handlers, request, groupLimit: null, version }),
  });
  const { next } = await recorder.turn([], names.length);
  expect(next.map(({ job }) => job.name)).toEqual(names);
  const states = () => names.map((_, index) => log.row(index + 1)?.state);
  return { ...log, recorder, next, states };
}

function ended(run: HandlerRun | undefined, end: Partial<RunEnd> = {}) {
  if (run === undefined) throw new Error('There is none.');
  const finishedAt = Date.now();
  const succeeded = { outcome: 'succeeded', finishedAt, durationMs: 1, reason: null } as const;
  const whole = { ...endUnmeasured({ ...succeeded, output: noOutput }), ...end };
  return { run, startedAt: finishedAt - 1, end: whole, isRetryable: true };
}

const seen = { pid: 4711, startTicks: 12, maxRssBytes: null };

test('several ends and the claims that follow are one commit', async () => {
  const { recorder, next, queue, states, row, root } = await open();
  const id = await queue.add('b');
  const { settled, next: following } = await recorder.turn(
    next.map((run) => ended(run)),
    2,
  );
  expect(settled.map(({ decision }) => decision?.state)).toEqual(Array(3).fill('finished'));
  expect(following).toMatchObject([{ job: { id }, attempt: 1, name: 'queue/b' }]);
  expect([...states(), row(id).state]).toEqual(['finished', 'finished', 'finished', 'claimed']);
  expect(await recorder.turn([], 1)).toBe(idleTurn);
  checkInvariants(root, { isSettled: false });
});

test('an end that the log refuses has failed, and says why; those beside it are as they were', async () => {
  const { recorder, next, states, row, runs, root } = await open();
  const output = { ...noOutput, text: 'so far\n', bytes: 7 };
  const ask = { kind: 'retry', delayMs: 9e15 } as const;
  const { settled } = await recorder.turn(
    [ended(next[0]), ended(next[1], { outcome: 'released', ask, output }), ended(next[2])],
    1,
  );
  expect(settled.map(({ decision }) => decision?.state)).toEqual(['finished', 'failed', 'finished']);
  expect(states()).toEqual(['finished', 'failed', 'finished']);
  const reason = expect.stringMatching(/^its end could not be recorded: CHECK constraint failed/);
  expect(row(2).reason).toEqual(reason);
  expect(runs(2)).toMatchObject([{ outcome: 'failed', reason, output: 'so far\n' }]);
  expect(settled.map(({ refusal = null }) => refusal)).toEqual([null, reason, null]);
  checkInvariants(root, { isSettled: false });
});

test('a defect of the runner at the end of a run is thrown, and calls no job failed', async () => {
  const { recorder, next, states } = await open();
  // No driver takes an object for a text.
  const output = { ...noOutput, text: {} as string, bytes: 1 };
  await expect(recorder.turn([ended(next[0]), ended(next[1], { output })], 1)).rejects.toThrow();
  expect(states()).toEqual(['claimed', 'claimed', 'claimed']);
});

test('what others have taken, or paused, is not begun any more', async () => {
  const { recorder, next, queue, states, row } = await open();
  expect(await recorder.keepHeld(next)).toEqual(next);
  await queue.pause('b');
  // Nobody begins it within half a second.
  await queue.bury(1);
  expect(await recorder.keepHeld(next)).toEqual([next[1]]);
  expect(states()).toEqual(['failed', 'claimed', 'queued']);
  await recorder.release(next);
  expect(states()).toEqual(['failed', 'queued', 'queued']);
  expect(row(2).attempts).toBe(0);
});

test('a run that lasts has a row, which its end completes; one whose claim is lost gets none', async () => {
  const { recorder, next, queue, runs, states } = await open();
  const [first, second] = next as [HandlerRun, HandlerRun];
  await recorder.recordProgress(first, 5, seen);
  await recorder.recordProgress(first, 5, { ...seen, pid: 4712, maxRssBytes: 7 });
  const row = { id: 1, key: first.claim.token, started_at: 5, attempt: 1 };
  expect(runs(1)).toMatchObject([{ ...row, pid: 4712, max_rss_bytes: 7, outcome: 'running' }]);
  await queue.requeue([2]);
  const [lost] = runs(2);
  await recorder.recordProgress(second, 5, seen);
  await recorder.turn([ended(first), ended(second)], 0);
  expect(runs(1)).toMatchObject([{ ...row, outcome: 'succeeded' }]);
  expect(runs(2)).toEqual([lost]);
  expect(states()).toEqual(['finished', 'queued', 'claimed']);
});

test('progress of a job is its data from then on, as long as the claim holds', async () => {
  const { recorder, next, queue, row } = await open();
  const claim = next[0]?.claim ?? { id: 0, token: '' };
  await recorder.update(claim, '{"done":1}');
  expect(row(1).data).toBe('{"done":1}');
  await queue.requeue([1]);
  await expect(recorder.update(claim, '2')).rejects.toMatchObject({ code: 'stale-claim' });
  expect(row(1).data).toBe('{"done":1}');
});

const workers = 'select id, kind, tier, state, skip_code, reason from workers order by id';
const max = { workers: { ...defaultSettings.workers, max: 2 } };

test('there are as many workers of the queue as there may be, passes not counted', async () => {
  const root = makeTemporaryRoot();
  await (await writeLog(root)).addPass('hourly', 1, { state: 'running' });
  const call = await makeLoggedCall(root, max);
  expect(await startQueueWorker(call)).toMatchObject({ workerId: 2 });
  expect(await startQueueWorker(call)).toMatchObject({ workerId: 3 });
  const refusal = '2 queue workers are already running (workers.max is 2)';
  expect(await startQueueWorker(call)).toEqual({ refusal });
  expect(queryLog(root, workers).slice(1)).toEqual([
    { id: 2, kind: 'queue', tier: null, state: 'running', skip_code: null, reason: null },
    { id: 3, kind: 'queue', tier: null, state: 'running', skip_code: null, reason: null },
    { id: 4, kind: 'queue', tier: null, state: 'skipped', skip_code: 'held', reason: refusal.replace('are', 'were') },
  ]);
  const told = 'select worker_id, event from activity order by worker_id';
  expect(queryLog(root, told)).toEqual([
    { worker_id: 1, event: 'worker-started' },
    { worker_id: 2, event: 'worker-started' },
    { worker_id: 3, event: 'worker-started' },
    { worker_id: 4, event: 'worker-skipped' },
  ]);
  await finishWorker(call, call.store, 2);
  expect(await startQueueWorker(call)).toMatchObject({ workerId: 5 });
});

test('what is claimed ahead does not grow with each job that prints', async () => {
  const root = makeTemporaryRoot({
    'jobs/queue/say.mjs': `import { DatabaseSync } from 'node:sqlite';
      const database = new DatabaseSync(process.env.RUNNER_ROOT + '/.runner/activity.db', { readOnly: true });
      const claimed = database.prepare("select count(*) as jobs from jobs where state = 'claimed'");
      export default ({ data }) => {
        if (data.prints) console.log('hello');
        return claimed.get().jobs;
      };`,
  });
  const queue = await openQueue({ root });
  // Silent ones first, so that it claims several at once.
  const jobs = Array.from({ length: 300 }, (_, index) => ({ name: 'say', data: { prints: index >= 100 } }));
  await queue.addMany(jobs);
  await queue.close();
  const { status } = runCommand(['work', '--wait', '0'], { cwd: root, env: { HOME: root, PATH: process.env.PATH } });
  expect(status).toBe(0);
  const claimed = queryLog(root, 'select cast(result as integer) as jobs from jobs order by id') as { jobs: number }[];
  expect(claimed.length).toBe(300);
  const most = Math.max(...claimed.map((each) => each.jobs));
  expect(most).toBeGreaterThan(8);
  // Some have run and are not settled, some run, some come next.
  expect(most).toBeLessThanOrEqual(96);
});

/** In its first run it waits, and says then what becomes of its progress. */
const handler = `
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export default async ({ update }) => {
  if (existsSync('begun')) return;
  writeFileSync('begun', '');
  while (!existsSync('go')) await sleep(10);
  const said = await update({ done: 99 }).then(() => 'fulfilled', (error) => error.message);
  writeFileSync('said.part', said);
  renameSync('said.part', 'said');
};
`;

async function lose(root: string, id: number, how: 'requeue' | 'delete'): Promise<void> {
  const queue = await openQueue({ root });
  await queue.requeue([id]);
  if (how === 'delete') await queue.delete(id);
  await queue.close();
}

test.each([
  ['requeue', 'The claim of job 1 (a) has expired: the job is queued; nothing was changed.'],
  ['delete', 'There is no job 1 in the queue; `npx folder-runner jobs` lists all jobs.'],
] as const)('progress of a job that is lost by %s is refused, and its handler told why', async (how, why) => {
  const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': handler });
  const path = (name: string) => join(root, name);
  const id = await addJob(root, 'a');
  const worker = startWaiting(root);
  await until('it has begun', () => existsSync(path('begun')), WITHIN_MS);
  await lose(root, id, how);
  writeFileSync(path('go'), '');
  await until('it has said how that was', () => existsSync(path('said')), WITHIN_MS);
  expect(readFileSync(path('said'), 'utf8')).toBe(why);
  if (how === 'requeue') {
    await untilState(root, id, 'finished');
    expect(readJobRow(root, id).data).toBe('{}');
  }
  await endInPeace(root, worker);
  checkInvariants(root);
});

const holding = `const held = Buffer.alloc(300_000_000, 1);
export default async () => {
  await new Promise((resolve) => setTimeout(resolve, 50));
  return held.length;
};
`;

test('--max-memory counts what the children hold, too', () => {
  const root = makeTemporaryRoot({ 'jobs/queue/holds.mjs': holding });
  const place = cronPlace(root);
  const jobs = '{"name":"holds"}\n'.repeat(400);
  runCommand(['--root', root, 'add', '--many'], { ...place, input: jobs });
  expect(runCommand(['--root', root, 'work', '--max-memory', '250mb'], place).status).toBe(0);
  expect(queryLog(root, "select reason from workers where kind = 'queue'")).toEqual([
    { reason: 'the worker and its children use more memory than allowed (--max-memory)' },
  ]);
  expect(queryLog(root, 'select distinct state from jobs order by state')).toEqual([
    { state: 'finished' },
    { state: 'queued' },
  ]);
});
