import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, inRoot, jsonOf, startCommand } from '../../support/command.ts';
import { isAlive, killGroup } from '../../support/faults/faults.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { addJob, endInPeace, readJobRow, readJobRuns, startWaiting } from '../../support/faults/queue.ts';
import { queryLog, readRuns } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** Whoever runs the tests. */
const me = userInfo().username;

const RUNNING = "select id from runs where outcome = 'running' and pid is not null";

async function untilRunning(root: string): Promise<void> {
  await until('a run is in the log', () => queryLog(root, RUNNING).length > 0);
}

test('a stopped script is neither a success nor a failure; its pass goes on, and it can be run again', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(
      '#!/bin/sh\n# @retries 3\n[ -e again ] && exit 0\necho $$ > group; exec sleep 600\n',
    ),
    'jobs/hourly/b.sh': executable('#!/bin/sh\ntouch again\n'),
  });
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('it runs', () => existsSync(join(root, 'group')));
  await untilRunning(root);
  const stopped = await inRoot(root, 'stop', 'a');
  expect(stopped).toEqual({
    status: 0,
    stdout: expect.stringMatching(
      new RegExp(`^Run 1 of hourly/a was stopped by ${me} after [\\d.]+m?s, ended with SIGTERM\\.\n$`),
    ),
    stderr: '',
  });
  const group = Number(readFileSync(join(root, 'group'), 'utf8'));
  await until('nothing of its group is left', () => !isAlive(-group));
  expect(await pass.ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(readRuns(root)).toMatchObject([{ outcome: 'stopped', signal: 'SIGTERM' }, { outcome: 'succeeded' }]);
  expect(queryLog(root, 'select name, state from jobs order by id')).toEqual([
    { name: 'hourly/a', state: 'cancelled' },
    { name: 'hourly/b', state: 'finished' },
  ]);
  expect(queryLog(root, 'select id from incidents')).toEqual([]);
  expect(queryLog(root, "select actor, run_id from events where event = 'run-stop-requested'")).toEqual([
    { actor: me, run_id: 1 },
  ]);
  expect(jsonOf(await inRoot(root, 'report', '--json')).totals).toMatchObject({ failed: 0, stopped: 1, succeeded: 1 });
  await startCommand(['run', 'hourly/a', '--root', root], cronPlace(root)).ended;
  expect(queryLog(root, "select state from jobs where name = 'hourly/a'")).toEqual([{ state: 'finished' }]);
  checkInvariants(root);
});

/** Its first call lasts; all others are over in no time. */
const slow = `
// @retries 3
import { existsSync, writeFileSync } from 'node:fs';
export default async () => {
  if (existsSync('begun')) return;
  writeFileSync('begun', '');
  await new Promise((resolve) => setTimeout(resolve, 600_000));
};
`;

test('a stop ends the named job alone of those that a worker has claimed, and cancels it', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/slow.mjs': slow });
  const ids = [await addJob(root, 'slow'), await addJob(root, 'slow'), await addJob(root, 'slow')];
  const worker = startWaiting(root);
  await untilRunning(root);
  const [first = 0] = ids;
  const { status, stdout } = await inRoot(root, 'stop', 'slow', '--json');
  expect([status, JSON.parse(stdout)]).toMatchObject([0, { job: first, outcome: 'stopped', exitCode: null }]);
  await until('the others have run', () => ids.slice(1).every((id) => readJobRow(root, id).state === 'finished'));
  await endInPeace(root, worker);
  expect(readJobRow(root, first)).toMatchObject({ state: 'cancelled', attempts: 1, claim_token: null });
  expect(readJobRuns(root, first)).toMatchObject([{ outcome: 'stopped' }]);
  expect(queryLog(root, 'select id from incidents')).toEqual([]);
  checkInvariants(root);
});

test('a repeating job that was stopped runs again at its next time', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/slow.mjs': slow });
  const id = await addJob(root, 'slow', { repeat: 'every 1 hours', runAt: new Date(Date.now() - 1000) });
  const worker = startWaiting(root);
  await untilRunning(root);
  await inRoot(root, 'stop', 'slow');
  await endInPeace(root, worker);
  expect(readJobRuns(root, id)).toMatchObject([{ outcome: 'stopped', left_job: 'cancelled' }]);
  const row = readJobRow(root, id);
  expect(row).toMatchObject({ state: 'queued', attempts: 0, finished_at: null });
  expect(row.run_at).toBeGreaterThan(Date.now());
});

test('a stop that is not possible says why, and changes nothing', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\n'),
    'jobs/queue/slow.sh': executable('#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.01; done\n'),
  });
  await startCommand(['hourly', '--root', root], cronPlace(root)).ended;
  for (const name of ['slow', 'slow']) await addJob(root, name);
  const worker = startWaiting(root, '--concurrency', '2');
  await until('both run', () => queryLog(root, RUNNING).length === 2);
  const refused = (status: number, stderr: string) => ({ status, stdout: '', stderr: expect.stringContaining(stderr) });
  expect(await inRoot(root, 'stop', 'a')).toEqual(
    refused(1, 'hourly/a does not run: nothing was stopped; `npx folder-runner show hourly/a` shows its newest run.'),
  );
  expect(await inRoot(root, 'stop', '1')).toEqual(
    refused(1, 'Run 1 of hourly/a has ended already (succeeded): nothing was stopped.'),
  );
  expect(await inRoot(root, 'stop', '99')).toEqual(refused(2, 'There is no run 99 in the log'));
  expect(await inRoot(root, 'stop', 'b')).toEqual(refused(2, 'There is no script "b" in jobs/ or in the log'));
  expect(await inRoot(root, 'stop', 'slow')).toEqual(refused(2, '2 runs of queue/slow go on, so name one of them'));
  expect(queryLog(root, "select id from events where event = 'run-stop-requested'")).toEqual([]);
  writeFileSync(join(root, 'go'), '');
  await endInPeace(root, worker);
});

test('a run that a program of its own has claimed is left to that', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail.sh': executable('#!/bin/sh\n') });
  const id = await addJob(root, 'mail');
  await inRoot(root, 'claim', 'mail');
  const [run] = readJobRuns(root, id);
  const { status, stderr } = await inRoot(root, 'stop', String(run?.id));
  expect([status, stderr]).toEqual([1, expect.stringContaining(`\`npx folder-runner job ${id} fail\``)]);
  expect(readJobRow(root, id)).toMatchObject({ state: 'running' });
});

test('a stopped run whose job is not kept is told all the same', async () => {
  const root = makeTemporaryRoot({
    'jobs/queue/slow.mjs': slow,
    'runner.config.json': '{ "queue": { "archive": { "*": "remove" } } }',
  });
  await addJob(root, 'slow');
  const worker = startWaiting(root);
  await untilRunning(root);
  expect(await inRoot(root, 'stop', 'slow')).toEqual({
    status: 0,
    stdout: 'Run 1 of queue/slow was stopped, and not kept.\n',
    stderr: '',
  });
  await endInPeace(root, worker);
  expect(queryLog(root, 'select id from jobs')).toEqual([]);
});

/** Its worker stands still, so that it does not see the request. */
async function askToStop(root: string) {
  await addJob(root, 'slow');
  const worker = startWaiting(root);
  await untilRunning(root);
  worker.kill('SIGSTOP');
  expect((await inRoot(root, 'stop', 'slow', '--no-wait')).status).toBe(0);
  return worker;
}

test('a request is heeded although the worker ends before it sees it: the job is not given back', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/slow.mjs': slow });
  const worker = await askToStop(root);
  worker.kill('SIGTERM');
  worker.kill('SIGCONT');
  await worker.ended;
  expect(queryLog(root, 'select state from jobs')).toEqual([{ state: 'cancelled' }]);
  const [run] = queryLog(root, 'select outcome, reason from runs');
  expect(run).toEqual({ outcome: 'stopped', reason: expect.stringMatching(new RegExp(`^stopped by ${me}`)) });
});

test('a request is heeded although the worker and the process of the run die: nothing is tried again', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/slow.mjs': slow });
  const worker = await askToStop(root);
  const [{ pid = 0 } = {}] = queryLog<{ pid: number }>(root, 'select pid from runs');
  worker.kill('SIGKILL');
  await worker.ended;
  killGroup(pid);
  await until('its process is gone', () => !isAlive(pid));
  await inRoot(root, 'work');
  expect(queryLog(root, 'select state from jobs')).toEqual([{ state: 'cancelled' }]);
  const [run, ...others] = queryLog(root, 'select outcome, reason from runs');
  expect(run).toEqual({ outcome: 'stopped', reason: expect.stringMatching(new RegExp(`^stopped by ${me}; .+ died`)) });
  expect(others).toEqual([]);
  expect(queryLog(root, 'select id from incidents')).toEqual([]);
});
