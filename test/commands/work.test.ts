import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace } from '../support/cron-place.ts';
import { checkInvariants } from '../support/invariants.ts';
import { listRunProcesses } from '../support/invariants-files.ts';
import { queryLog } from '../support/open-log.ts';
import {
  addJob,
  endInPeace,
  readJobRow,
  readJobRuns,
  startWaiting,
  untilState,
  WITHIN_MS,
} from '../support/queue-workers.ts';
import { runCommand } from '../support/run-command.ts';
import { startCommand } from '../support/start-command.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../support/temporary-root.ts';
import { until } from '../support/until.ts';

const noop = 'export default () => {};\n';
/** Until there is a file `go` in the root. */
const waits = executable('#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\n');

function makeSite(files: Readonly<Record<string, FileContent>> = {}): string {
  return makeTemporaryRoot({ 'jobs/queue/noop.mjs': noop, 'jobs/queue/waits.sh': waits, ...files });
}

const work = (root: string, ...args: readonly string[]) =>
  runCommand(['--root', root, 'work', ...args], cronPlace(root));

const stateOf = (root: string, id: number) => readJobRow(root, id).state;

/** The state that its run has, not the job: it is there when the handler's process is. */
const untilRuns = (root: string) =>
  until('a handler runs', () => listRunProcesses(root).length > 0, WITHIN_MS);

test('without --for and --wait it works off what is due, and ends', async () => {
  const root = makeSite();
  const [due, later] = [await addJob(root, 'noop'), await addJob(root, 'noop', { runAt: '+1h' })];
  expect(work(root)).toEqual({ status: 0, stdout: '', stderr: '' });
  expect([stateOf(root, due), stateOf(root, later)]).toEqual(['finished', 'queued']);
  checkInvariants(root);
});

test('patterns say which jobs it takes, --max-jobs how many', async () => {
  const root = makeSite({ 'jobs/queue/mail/a.mjs': noop });
  const ids = [
    await addJob(root, 'noop'),
    await addJob(root, 'mail/a'),
    await addJob(root, 'mail/a'),
  ];
  expect(work(root, 'mail/*', '--max-jobs', '1').status).toBe(0);
  expect(ids.map((id) => stateOf(root, id))).toEqual(['queued', 'finished', 'queued']);
  const told = "select reason from workers where kind = 'queue'";
  expect(queryLog(root, told)).toEqual([{ reason: 'it has taken 1 job' }]);
});

test('a job without a handler here waits, or fails if it is asked to', async () => {
  const root = makeSite();
  const id = await addJob(root, 'elsewhere');
  expect(work(root).status).toBe(0);
  expect(stateOf(root, id)).toBe('queued');
  const { status, stderr } = work(root, '--fail-unknown');
  expect(status).toBe(1);
  expect(stderr).toContain('there is no handler jobs/queue/elsewhere here');
  expect(readJobRow(root, id)).toMatchObject({ state: 'failed', attempts: 1 });
});

test('a failed job is told of as cron mails it, one that is given back is not', async () => {
  const root = makeSite({
    'jobs/queue/fails.mjs': 'export default () => { throw new TypeError("boom"); };\n',
    'jobs/queue/later.sh': executable('#!/bin/sh\nexit 75\n'),
  });
  await addJob(root, 'later');
  expect(work(root)).toEqual({ status: 0, stdout: '', stderr: '' });
  await addJob(root, 'fails');
  const { status, stderr } = work(root);
  expect(status).toBe(1);
  expect(stderr).toMatch(/^runner: 1 of 1 .*\n\nqueue\/fails failed after .*: TypeError: boom\n/);
});

test('with --for it waits for jobs until its time is over', async () => {
  const root = makeSite();
  const worker = startCommand(['--root', root, 'work', '--for', '3s'], cronPlace(root));
  const running = () =>
    queryLog(root, "select 1 from workers where kind = 'queue' and state = 'running'").length > 0;
  await until(
    'the worker is there',
    () => {
      try {
        return running();
      } catch {
        return false;
      }
    },
    WITHIN_MS,
  );
  const id = await addJob(root, 'noop');
  expect(await worker.ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(stateOf(root, id)).toBe('finished');
});

test('SIGTERM lets the job in hand finish and takes no more', async () => {
  const root = makeSite();
  const [first, second] = [await addJob(root, 'waits'), await addJob(root, 'noop')];
  const worker = startWaiting(root);
  await untilRuns(root);
  worker.kill('SIGTERM');
  writeFileSync(join(root, 'go'), '');
  expect(await worker.ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect([stateOf(root, first), stateOf(root, second)]).toEqual(['finished', 'queued']);
  checkInvariants(root);
});

test('a second signal ends the job in hand, which is given back', async () => {
  const root = makeSite();
  const id = await addJob(root, 'waits');
  const worker = startWaiting(root);
  await untilRuns(root);
  worker.kill('SIGTERM');
  worker.kill('SIGINT');
  // Whichever of the two it was told of first.
  expect([143, 130]).toContain((await worker.ended).status);
  expect(readJobRow(root, id)).toMatchObject({ state: 'retrying', attempts: 0, releases: 1 });
  checkInvariants(root);
});

test('a job whose process is ended together with its worker is given back, too', async () => {
  const root = makeSite();
  const id = await addJob(root, 'waits');
  const worker = startWaiting(root);
  await untilRuns(root);
  worker.kill('SIGTERM');
  for (const { pid } of listRunProcesses(root)) process.kill(pid, 'SIGTERM');
  await worker.ended;
  expect(readJobRow(root, id)).toMatchObject({ state: 'retrying', attempts: 0, releases: 1 });
});

test.each(['.runner/restart', 'runner.config.json', 'deployed'])(
  'a worker that waits finishes when %s is touched',
  async (file) => {
    const root = makeSite();
    const args = ['--root', root, 'work', '--wait', '10m', '--watch-file', join(root, 'deployed')];
    const worker = startCommand(args, cronPlace(root));
    const id = await addJob(root, 'noop');
    await untilState(root, id, 'finished');
    mkdirSync(join(root, '.runner'), { recursive: true });
    writeFileSync(join(root, file), '{}');
    expect(await worker.ended).toEqual({ status: 0, stdout: '', stderr: '' });
  },
);

test('more workers than there may be say so and end', async () => {
  const root = makeSite({ 'runner.config.json': '{ "workers": { "max": 1 } }' });
  const worker = startWaiting(root);
  const id = await addJob(root, 'noop');
  await untilState(root, id, 'finished');
  expect(work(root).status).toBe(0);
  const skipped = "select reason from workers where state = 'skipped'";
  expect(queryLog(root, skipped)).toEqual([
    { reason: '1 workers of the queue are at work already (workers.max is 1)' },
  ]);
  await endInPeace(worker);
});

test('a pass of a tier serves the queue, too', async () => {
  const root = makeSite({ 'jobs/hourly/a.sh': executable('#!/bin/sh\n') });
  const id = await addJob(root, 'noop');
  const { status } = runCommand(['--root', root, 'hourly'], cronPlace(root));
  expect(status).toBe(0);
  expect(readJobRuns(root, id)).toMatchObject([{ script: 'queue/noop', outcome: 'succeeded' }]);
  checkInvariants(root);
});

test('a handler that writes where only its runner is heard is ended, and the worker goes on', async () => {
  const root = makeSite({
    'jobs/queue/garbage.mjs':
      "import { writeSync } from 'node:fs';\nexport default async () => { writeSync(4, 'junk\\n'); await new Promise((resolve) => setTimeout(resolve, 60_000)); };\n",
  });
  const [garbage, good] = [await addJob(root, 'garbage'), await addJob(root, 'noop')];
  expect(work(root).status).toBe(1);
  expect([stateOf(root, garbage), stateOf(root, good)]).toEqual(['failed', 'finished']);
  checkInvariants(root);
});

test.each([
  ['--for', 'soon', 'a duration such as 55s, 14m or 2h'],
  ['--wait', '10', 'a duration such as 55s, 14m or 2h'],
  ['--max-jobs', '0', 'a whole number from 1 to 1000000000'],
  ['--concurrency', '65', 'a whole number from 1 to 64'],
  ['--max-load', '-1', 'a number above 0, up to 10000'],
  ['--max-memory', '5', 'a size such as 64mb, 512mb or 1gb'],
])('%s %s is refused', (option, value, expected) => {
  const root = makeSite();
  const { status, stderr } = work(root, `${option}=${value}`);
  expect(stderr).toBe(`runner: ${option} expects ${expected}, found "${value}".\n`);
  expect(status).toBe(2);
});
