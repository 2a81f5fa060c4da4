import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import type { ScriptOptions } from '../../../src/settings/settings.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import {
  type EndLostRun,
  findLostRuns,
  type LostEnd,
  type Rescue,
  rescueRuns,
} from '../../../src/worker/recovery/dead-workers.ts';
import { hasOrphanedClaim } from '../../../src/worker/recovery/tier-lock.ts';
import { openWorker } from '../../engines/queue/worker-claims.ts';
import { runWithFault } from '../../support/faults/faults.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { changeLog, makeFinishedRun, queryLog } from '../../support/log.ts';
import { openTestQueue, START } from '../../support/queue.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { explainQueries } from '../../support/store.ts';

const FOUND_AT = START + 100;

const ended = (run: Partial<FinishedRun>, more: Partial<LostEnd> = {}): LostEnd => ({
  end: makeFinishedRun({ finished_at: START + 50, ...run }),
  ...{ result: null, decision: null, ...more },
});
const crashed = ended({ outcome: 'crashed', exit_code: null, reason: 'it died' });
const failed = { outcome: 'failed', exit_code: 1, reason: 'exit code 1' } as const;

/** Three jobs: one was done by a worker, one ran when that died, and one was never claimed. */
async function open({ options = {}, jobOptions = {} }: { options?: ScriptOptions; jobOptions?: object } = {}) {
  const log = await openTestQueue();
  const { store, queue, clock, root } = log;
  const worker = await openWorker(log, { options });
  await queue.addMany(['a', 'b', 'c'].map((name) => ({ name, ...jobOptions })));
  await worker.settle(await worker.claimOne());
  const job = await worker.claimOne();
  await worker.begin(job);
  const died = { state: 'crashed', at: START, reason: 'its process is gone' } as const;
  await store.transaction((session) => session.workers.end(worker.workerId, died));
  clock.at = FOUND_AT;
  const notes: string[] = [];
  const rescue: Rescue = {
    ...{ at: FOUND_AT, missedCap: 10, policyOf: async () => policyOf(options) },
    onRefused: (note) => void notes.push(note),
  };
  const state = { results: `${root}/.runner/results` } as Parameters<typeof findLostRuns>[1];
  const find = () => findLostRuns(store, state, FOUND_AT);
  const rescueAll = async (end: LostEnd | null, lost = find()) =>
    rescueRuns(store, await lost, rescue, async () => end);
  return { ...log, worker, job, rescue, notes, state, find, rescueAll };
}

const states = `select jobs.name, jobs.state, runs.outcome, runs.finished_at
  from jobs left join runs on runs.job_id = jobs.id order by jobs.id`;

test('jobs that a dead worker ran have crashed; jobs that it had not begun wait for the next worker', async () => {
  const { root, rescueAll, events, runs } = await open();
  const { ended: rescued, alive } = await rescueAll(crashed);
  expect([rescued.length, alive]).toEqual([1, []]);
  expect(queryLog(root, states)).toEqual([
    { name: 'a', state: 'finished', outcome: 'succeeded', finished_at: START },
    { name: 'b', state: 'retrying', outcome: 'crashed', finished_at: START + 50 },
    { name: 'c', state: 'queued', outcome: null, finished_at: null },
  ]);
  expect(runs(2)).toMatchObject([{ reason: 'it died', output: 'hi\n' }]);
  expect(events(2)).toEqual(['job-queued', 'run-started', 'job-retrying']);
  checkInvariants(root, { isSettled: false });
});

test('a crash after which its policy cancels the job opens an incident all the same', async () => {
  const { root, rescueAll, row } = await open({ options: { onCrash: 'skip' } });
  await rescueAll(crashed);
  expect(row(2).state).toBe('cancelled');
  expect(queryLog(root, 'select subject, code from incidents')).toEqual([
    { subject: 'queue/b', code: 'script-failing' },
  ]);
});

test('a run that outlived its runner stays open, and its job with it', async () => {
  const { root, rescueAll, worker } = await open();
  const { ended: rescued, alive } = await rescueAll(null);
  expect(rescued).toEqual([]);
  expect(alive).toMatchObject([
    {
      claim: { job: { id: 2 }, token: `${worker.workerId}.2`, run: { pid: null } },
      start: { script: 'queue/b', attempt: 1, timeoutMs: 7_000, startedAt: START },
    },
  ]);
  expect(queryLog(root, states)[1]).toEqual({
    ...{ name: 'b', state: 'running', outcome: 'running', finished_at: null },
  });
});

test('rescuing again changes nothing, and neither does the end that comes late', async () => {
  const { dump, find, rescueAll, worker, job } = await open();
  const lost = find();
  await rescueAll(crashed, lost);
  const before = dump();
  expect((await rescueAll(crashed, lost)).ended).toEqual([]);
  expect(await find()).toEqual([]);
  expect((await worker.settle(job)).decision).toBeNull();
  expect(dump()).toBe(before);
});

test('there may be something lost while a worker is open, or has a job', async () => {
  const log = await open();
  const { store, rescueAll } = log;
  const look = async () => [await store.workers.hasOpen(START), await hasOrphanedClaim(store)];
  expect(await look()).toEqual([true, true]);
  await rescueAll(crashed);
  expect(await look()).toEqual([false, false]);
  const worker = await openWorker(log);
  expect(await look()).toEqual([true, false]);
  await worker.claimOne();
  expect(await look()).toEqual([true, false]);
});

test('looking for what is to be rescued reads no table as a whole', async () => {
  const { root, state, rescue } = await open();
  const plans = await explainQueries(root, async (store) => {
    await store.workers.hasOpen(START);
    await rescueRuns(store, await findLostRuns(store, state, FOUND_AT), rescue, async () => crashed);
  });
  expect(plans.filter((plan) => plan.includes('jobs_claimed')).length).toBeGreaterThanOrEqual(2);
  for (const plan of plans) {
    const rest = plan.replaceAll(/SCAN (CONSTANT ROW|json_each)/g, '');
    expect(rest).not.toMatch(/SCAN (?!\w+ USING (COVERING )?INDEX (jobs_claimed|workers_running))/);
  }
});

test.each<[string, LostEnd, object, string, object]>([
  [
    'finished, with its result',
    ended({}, { result: '{"sent":true}' }),
    { state: 'finished', result: '{"sent":true}', finished_at: FOUND_AT },
    'job-finished',
    { crashes: 0 },
  ],
  [
    'asked for another try',
    ended({ ...failed, outcome: 'released' }, { decision: { kind: 'retry', delayMs: 5_000, data: '[7]' } }),
    { state: 'retrying', run_at: FOUND_AT + 5_000, data: '[7]', attempts: 0 },
    'job-released',
    { releases: 1 },
  ],
  [
    'asked to fail',
    ended(failed, { decision: { kind: 'fail', reason: 'no such address' } }),
    { state: 'failed', reason: 'no such address' },
    'job-failed',
    {},
  ],
  [
    'died with its worker, and has one try only',
    crashed,
    { state: 'retrying', run_at: FOUND_AT + 60_000, attempts: 1 },
    'job-retrying',
    { crashes: 1 },
  ],
])('a run of the queue that %s', async (_, end, columns, event, counters) => {
  const { row, runs, events, queue, rescueAll, root } = await open();
  expect(await rescueAll(end)).toMatchObject({ ended: [{}], alive: [] });
  expect(row(2)).toMatchObject({ ...columns, claim_token: null, lease_expires_at: null });
  expect(runs(2).map(({ outcome }) => outcome)).toEqual([end.end.outcome]);
  expect(events(2).at(-1)).toBe(event);
  expect((await queue.get(2))?.counters).toMatchObject(counters);
  checkInvariants(root, { isSettled: false });
});

test('a run whose end the log refuses has failed, and keeps no other from being rescued', async () => {
  const { row, runs, notes, rescueAll } = await open();
  const decision = { kind: 'retry', delayMs: 9e15 } as const;
  const end = ended({ ...failed, outcome: 'released' }, { decision });
  expect(await rescueAll(end)).toMatchObject({ ended: [{}] });
  const reason = expect.stringMatching(/^its end could not be recorded: CHECK constraint failed/);
  expect(row(2)).toMatchObject({ state: 'failed', reason });
  expect(runs(2)).toMatchObject([{ outcome: 'failed', reason, output: 'hi\n' }]);
  expect(notes).toEqual([]);
});

test('a run that cannot be recorded at all is told of, and the others are rescued', async () => {
  const { root, store, rescue, notes, find, worker, row } = await open();
  changeLog(root, `update workers set state = 'running', finished_at = null`);
  await worker.begin(await worker.claimOne());
  changeLog(root, `update workers set state = 'crashed', finished_at = 1`);
  const end: EndLostRun = async ({ claim }) =>
    // No driver takes an object for a text.
    claim.job.id === 2 ? ended({ ...failed, signal: {} as string }) : crashed;
  const { ended: rescued } = await rescueRuns(store, await find(), rescue, end);
  expect(rescued).toMatchObject([{ claim: { job: { id: 3 } } }]);
  expect(notes).toEqual([expect.stringMatching(/^the end of a run of queue\/b cannot be recorded: /)]);
  expect([2, 3].map((id) => row(id).state)).toEqual(['running', 'retrying']);
});

test('a run of a tier whose folder is gone, or only on other machines, is rescued by the passes of the others', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', 'jobs/daily/b.sh': 'true\n' });
  await runWithFault(root, ['hourly'], { at: 'after spawn#1' });
  rmSync(join(root, 'jobs/hourly'), { recursive: true });
  expect(await runWithFault(root, ['daily'])).toMatchObject({ status: 0 });
  const runs = queryLog(root, 'select script, outcome from runs order by id');
  expect(runs).toEqual([
    { script: 'hourly/a', outcome: 'crashed' },
    { script: 'daily/b', outcome: 'succeeded' },
  ]);
});
