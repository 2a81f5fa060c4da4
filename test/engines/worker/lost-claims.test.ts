import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { heldOutputOf, runFilesOf } from '../../../src/execution/run-files.ts';
import { findLostRuns } from '../../../src/worker/recovery/dead-workers.ts';
import { cronPlace, runCommand } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { addJob, nodeHandler, readJobRow, readJobRuns, readSeenTries } from '../../support/faults/queue.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { writeLog } from '../../support/written-log.ts';

/*
 * What a worker has claimed and not begun to record when it dies: nothing but files tells whether it had begun.
 */

const NOW = Date.now();

/** A dead worker that has claimed a script and, by its side, a job of the queue. */
async function leaveClaims() {
  const root = makeTemporaryRoot();
  const { store, state, change, addPass } = await writeLog(root);
  const workerId = await addPass('hourly', NOW, { state: 'crashed' });
  const tokens = { script: `${workerId}.1`, queue: `${workerId}.2` };
  const at = NOW - 60_000;
  change(`insert into jobs (id, name) values (7, 'mail')`);
  await store.transaction(async (session) => {
    const { scriptJobs, claims } = session;
    const [id = 0] = await scriptJobs.enqueue([{ name: 'hourly/a', tier: 'hourly', scheduledFor: null, at }]);
    await scriptJobs.claim([{ id, token: tokens.script, state: 'claimed', at }]);
    const selection = { names: null, isWanted: () => true, groupLimit: null };
    const request = { selection, count: 1, at: Date.now() + 1_000, leaseMs: null, defaultLeaseMs: 60_000 };
    await claims.claim({ ...request, newToken: () => tokens.queue, state: 'claimed' });
  });
  const jobs = () => queryLog(root, 'select name, state, attempts, claim_token from jobs order by name');
  const find = async () =>
    (await findLostRuns(store, state, NOW))
      .map(({ start }) => start)
      .toSorted((one, other) => (one.script < other.script ? -1 : 1));
  return { root, state, tokens, jobs, find };
}

const put = (path: string, content = ''): void => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
};

const untouched = [
  { name: 'hourly/a', state: 'queued', attempts: 0, claim_token: null },
  { name: 'mail', state: 'queued', attempts: 0, claim_token: null },
];

test('what had not begun is given back, and no try of it is counted', async () => {
  const { root, jobs, find } = await leaveClaims();
  expect(jobs()).toMatchObject([{ state: 'claimed' }, { state: 'claimed' }]);
  expect(await find()).toEqual([]);
  expect(jobs()).toEqual(untouched);
  expect(queryLog(root, 'select id from runs')).toEqual([]);
});

test.each(['output', 'result'] as const)('a run that has left its %s had begun', async (file) => {
  const { state, tokens, jobs, find } = await leaveClaims();
  for (const token of Object.values(tokens)) put(runFilesOf(state, token)[file]);
  const begun = { attempt: 1, workerId: 1, startedAt: expect.any(Number), timeoutMs: null };
  expect(await find()).toMatchObject([
    { ...begun, key: tokens.script, script: 'hourly/a' },
    { ...begun, key: tokens.queue, script: 'queue/mail', jobId: 7 },
  ]);
  expect(jobs()).toMatchObject([{ state: 'claimed' }, { state: 'claimed' }]);
});

test('one whose process was started ahead and still waited for its turn had not', async () => {
  const { state, tokens, jobs, find } = await leaveClaims();
  const files = runFilesOf(state, tokens.script);
  put(heldOutputOf(files));
  expect(await find()).toEqual([]);
  expect(jobs()).toEqual(untouched);
  // Without this file it never begins.
  expect(existsSync(heldOutputOf(files))).toBe(false);
});

test('of a child that serves many jobs its ledger names the one that had begun', async () => {
  const { state, tokens, jobs, find } = await leaveClaims();
  put(join(state.results, 'warm.web3.4711.12.1'), tokens.queue.padEnd(64));
  expect(await find()).toMatchObject([{ key: tokens.queue, jobId: 7, attempt: 1 }]);
  expect(jobs()).toMatchObject([untouched[0], { state: 'claimed' }]);
});

test.each([
  [3, 0],
  [1_000, 1_000],
])('a ledger written %i ms before the job was due tells of a run that began %i ms before', async (early, began) => {
  const { root, state, tokens, find } = await leaveClaims();
  const [{ run_at: dueAt } = { run_at: 0 }] = queryLog<{ run_at: number }>(
    root,
    'select run_at from jobs where id = 7',
  );
  const path = join(state.results, 'warm.web3.4711.12.1');
  put(path, tokens.queue.padEnd(64));
  utimesSync(path, new Date(dueAt - early), new Date(dueAt - early));
  expect(await find()).toMatchObject([{ key: tokens.queue, startedAt: dueAt - began }]);
});

test('jobs that were claimed ahead of the one under which their worker died are done once, as first tries', async () => {
  const root = makeTemporaryRoot({
    'jobs/queue/a.mjs': nodeHandler({
      does: `if (id === 20) { process.kill(process.ppid, 'SIGKILL'); while (process.ppid !== 1 && isAlive(worker)) await sleep(5); }`,
    }),
  });
  const ids = Array.from({ length: 30 }, (_, index) => index + 1);
  for (const _ of ids) await addJob(root, 'a');
  expect(runCommand(['--root', root, 'work'], cronPlace(root)).status).toBeNull();
  await until('the child has come to its end', () => readSeenTries(root).at(-1)?.end === 'done');
  const claimed = () => ids.filter((id) => readJobRow(root, id).state === 'claimed');
  expect(claimed()).toContain(20);
  await until('all is done', () => {
    runCommand(['--root', root, 'work'], cronPlace(root));
    return ids.every((id) => readJobRow(root, id).state === 'finished');
  });
  expect(readSeenTries(root).map(({ jobId }) => jobId)).toEqual(ids);
  const runs = ids.flatMap((id) => readJobRuns(root, id));
  expect(runs.map(({ outcome, attempt }) => [outcome, attempt])).toEqual(ids.map(() => ['succeeded', 1]));
  checkInvariants(root);
});
