import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { commandPath, cronPlace, runCommand, startCommand } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { listRunProcesses } from '../../support/faults/log-content.ts';
import {
  addJob,
  endInPeace,
  readJobRow,
  readJobRuns,
  startWaiting,
  untilState,
  WITHIN_MS,
} from '../../support/faults/queue.ts';
import { changeLog, queryLog, testOfSqlite } from '../../support/log.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

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
const untilRuns = (root: string) => until('a handler runs', () => listRunProcesses(root).length > 0, WITHIN_MS);

test('without --for and --wait it works off what is due, and ends', async () => {
  const root = makeSite();
  const [due, later] = [await addJob(root, 'noop'), await addJob(root, 'noop', { runAt: '+1h' })];
  expect(work(root)).toEqual({ status: 0, stdout: '', stderr: '' });
  expect([stateOf(root, due), stateOf(root, later)]).toEqual(['finished', 'queued']);
  checkInvariants(root);
});

test('a job that fails before its first try counts as failed, opens an incident and is told', async () => {
  const root = makeSite();
  await addJob(root, 'noop');
  changeLog(root, `insert into jobs (name, repeat) values ('noop', 'nonsense')`);
  changeLog(root, `insert into jobs (name, parent_id) values ('noop', 99)`);
  const { status, stdout, stderr } = work(root, '--json');
  expect([status, JSON.parse(stdout)]).toEqual([
    1,
    { succeeded: 1, failed: 2, released: 0, stopped: 0, skipped: null },
  ]);
  expect(stderr).toContain('The repeat rule "nonsense" is wrong');
  expect(stderr).toContain('its parent, job 99, does not exist');
  expect(queryLog(root, 'select subject, code from incidents')).toEqual(
    Array(2).fill({ subject: 'queue/noop', code: 'script-failing' }),
  );
});

test('with --json it tells at its end how its runs have ended', async () => {
  const root = makeSite({
    'jobs/queue/fails.sh': executable('#!/bin/sh\nexit 3\n'),
    'jobs/queue/busy.sh': executable('#!/bin/sh\nexit 75\n'),
    'runner.config.json': '{ "workers": { "max": 1 } }',
  });
  for (const name of ['noop', 'noop', 'fails', 'busy']) await addJob(root, name);
  const { status, stdout } = work(root, '--json');
  expect(status).toBe(1);
  expect(JSON.parse(stdout)).toEqual({ succeeded: 2, failed: 1, released: 1, stopped: 0, skipped: null });
  await addJob(root, 'waits');
  const other = startWaiting(root);
  await untilRuns(root);
  const { skipped } = JSON.parse(work(root, '--json').stdout);
  expect(skipped).toBe('1 queue workers are already running (workers.max is 1)');
  writeFileSync(join(root, 'go'), '');
  await endInPeace(root, other);
});

test('however many have succeeded before it, a failed job is seen by the exit code', async () => {
  const root = makeSite({ 'jobs/queue/throws.mjs': "export default () => { throw new Error('it broke'); };\n" });
  const queue = await openQueue({ root });
  await queue.addMany(Array(1_000).fill({ name: 'noop' }));
  await queue.add('throws', {}, { priority: 1 });
  await queue.close();
  const { status, stdout } = work(root, '--json');
  expect([status, JSON.parse(stdout)]).toMatchObject([1, { succeeded: 1_000, failed: 1 }]);
});

testOfSqlite('with --json, a run whose end the log refuses has failed', async () => {
  const root = makeSite({ 'jobs/queue/talks.sh': executable('#!/bin/sh\necho no text of this log\n') });
  for (const name of ['noop', 'talks', 'noop']) await addJob(root, name);
  changeLog(
    root,
    `create trigger refuse before insert on outputs when new.output like 'no text%'
      begin insert into hosts (id) values (null); end`,
  );
  const { status, stdout, stderr } = work(root, '--json');
  expect(JSON.parse(stdout)).toEqual({ succeeded: 2, failed: 1, released: 0, stopped: 0, skipped: null });
  expect(status).toBe(1);
  expect(stderr).toContain('its end could not be recorded: ');
  expect([1, 2, 3].map((id) => stateOf(root, id))).toEqual(['finished', 'failed', 'finished']);
});

test('patterns say which jobs it takes, --max-jobs how many', async () => {
  const root = makeSite({ 'jobs/queue/mail/a.mjs': noop });
  const ids = [await addJob(root, 'noop'), await addJob(root, 'mail/a'), await addJob(root, 'mail/a')];
  expect(work(root, 'mail/*', '--max-jobs', '1').status).toBe(0);
  expect(ids.map((id) => stateOf(root, id))).toEqual(['queued', 'finished', 'queued']);
  const told = "select reason from workers where kind = 'queue'";
  expect(queryLog(root, told)).toEqual([{ reason: 'it has run 1 job' }]);
});

test('parameters in the names of jobs tell them apart, and their handler is the same', async () => {
  const root = makeSite({ 'jobs/queue/mail/a.mjs': 'export default ({ name }) => ({ name });\n' });
  const add = (...args: readonly string[]) => runCommand(['--root', root, 'add', ...args], cronPlace(root));
  expect(add('mail/a?user=7')).toMatchObject({ status: 0, stderr: '' });
  expect(add('mail/b?user=7').stderr).toContain('no handler for mail/b here');
  expect(work(root).status).toBe(0);
  const [told, waits] = [readJobRow(root, 1), readJobRow(root, 2)];
  expect(told).toMatchObject({ state: 'finished', name: 'mail/a?user=7' });
  expect(JSON.parse(told.result ?? '')).toEqual({ name: 'mail/a?user=7' });
  expect(waits.state).toBe('queued');
  const status = runCommand(['--root', root, 'status'], cronPlace(root)).stdout;
  expect(status).toContain('mail/b: 1 job without a handler here');
  const report = runCommand(['--root', root, 'report'], cronPlace(root)).stdout;
  // Its runs are the handler's, whatever the parameters.
  expect(report).toMatch(/ mail\/a +\d+ \S+ \S+ +succeeded +1 /);
  expect(report).not.toContain('gone');
  checkInvariants(root);
});

test('a repeating job with parameters is told of its own last success', async () => {
  const root = makeSite({ 'jobs/queue/mail/a.mjs': 'export default ({ lastSuccess }) => ({ lastSuccess });\n' });
  const add = (...args: readonly string[]) => runCommand(['--root', root, 'add', ...args], cronPlace(root));
  add('mail/a?user=7', '--repeat', 'FINISHED, +1 SECOND');
  work(root, '--max-jobs', '1');
  add('mail/a?user=8', '--priority', '900');
  work(root, '--max-jobs', '1');
  work(root, '--max-jobs', '1', '--wait', '5s');
  expect(queryLog(root, 'select job_id from runs order by id')).toEqual([1, 2, 1].map((id) => ({ job_id: id })));
  const { lastSuccess } = JSON.parse(readJobRow(root, 1).result ?? '');
  expect(queryLog(root, 'select min(started_at) as at from runs')).toEqual([{ at: Date.parse(lastSuccess) }]);
});

test('patterns that lead to no job are told of, or refused', async () => {
  const root = makeSite({ 'jobs/queue/mail/a.mjs': noop });
  expect(work(root, 'noop', 'mail/a?user=*', 'mail/*', '--wait', '0s')).toMatchObject({ stderr: '' });
  expect(work(root, 'mial/*', 'noop')).toEqual({
    status: 0,
    stdout: '',
    stderr:
      'Note: jobs/queue/ has no handler that matches mial/* here, so no such job is claimed. Check the name, or add the handler.\n',
  });
  expect(work(root, 'mial/*', '--fail-unknown').stderr).toBe('');
  for (const wrong of ['', 'mail[']) {
    expect(work(root, wrong)).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^runner: A pattern must be .+, found .+\n$/),
    });
  }
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
    'jobs/queue/again.mjs': "export default ({ retry }) => retry({ delay: '1h' });\n",
  });
  const ids = [await addJob(root, 'later'), await addJob(root, 'again')];
  expect(work(root)).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(ids.flatMap((id) => readJobRuns(root, id))).toMatchObject([
    { outcome: 'released', reason: 'exit code 75: asked for another try' },
    { outcome: 'released', reason: 'asked for another try in 1h' },
  ]);
  checkInvariants(root);
  await addJob(root, 'fails');
  const { status, stderr } = work(root);
  expect(status).toBe(1);
  expect(stderr).toMatch(/^runner: 1 of 1 .*\n\nqueue\/fails \(job 3\) failed after .*: TypeError: boom\n/);
});

/** A handler in another language that does something to its own job, and goes on then. */
const ofItself = (words: string, code: number) =>
  executable(`#!/bin/sh
# @retries 1
echo begun
'${process.execPath}' '${commandPath}' job "$RUNNER_JOB" ${words} --token "$RUNNER_RUN" || exit 9
echo ended
exit ${code}
`);

test.each([
  [`finish --result '{"made":3}' --data 7`, { state: 'finished', result: '{"made":3}', data: '7' }, 'succeeded', null],
  ["retry --delay 1h --reason 'too busy'", { state: 'retrying', attempts: 0 }, 'released', 'too busy'],
  ['fail --reason hopeless', { state: 'failed', attempts: 1 }, 'failed', 'hopeless'],
  ['fail --reason once --may-retry', { state: 'retrying', attempts: 1 }, 'failed', 'once'],
  ["bury --reason 'to be looked at'", { state: 'failed' }, 'failed', 'to be looked at'],
] as const)('a handler in any language ends its own job: %s', async (words, row, outcome, reason) => {
  for (const code of [0, 3]) {
    const root = makeSite({ 'jobs/queue/own.sh': ofItself(words, code) });
    const id = await addJob(root, 'own');
    // What it ends with is told, and counts no more.
    expect(work(root).status).toBe(code === 0 ? 0 : 1);
    expect(readJobRow(root, id)).toMatchObject({ ...row, claim_token: null });
    expect(readJobRuns(root, id)).toMatchObject([{ outcome, reason }]);
    const [{ output = '' } = {}] = readJobRuns(root, id);
    expect(output?.replace(/^Job .*\n/m, '')).toBe('begun\nended\n');
    checkInvariants(root);
  }
});

test('a handler in any language changes its own job and goes on, or removes it', async () => {
  const root = makeSite({
    'jobs/queue/saves.sh': ofItself('update --data \'{"page":2}\'', 0),
    'jobs/queue/lasts.sh': ofItself('touch --lease 5m', 0),
    'jobs/queue/goes.sh': ofItself('delete', 0),
    'jobs/queue/late.sh': ofItself('finish --token 0.0 || exit 9 #', 0),
  });
  const names = ['saves', 'lasts', 'goes', 'late'];
  const ids: number[] = [];
  for (const name of names) ids.push(await addJob(root, name));
  expect(work(root).status).toBe(1);
  const [saves, lasts, goes, late] = ids.map((id) => readJobRow(root, id));
  expect([saves, lasts]).toMatchObject([{ state: 'finished', data: '{"page":2}' }, { state: 'finished' }]);
  expect(goes).toBeUndefined();
  expect(late).toMatchObject({ state: 'retrying', attempts: 1 });
});

test('a handler that asks for what the log would refuse has failed like any other', async () => {
  const root = makeSite({ 'jobs/queue/out.mjs': "export default ({ retry }) => retry({ name: '../x' });\n" });
  const id = await addJob(root, 'out');
  const { status, stderr } = work(root);
  expect(status).toBe(1);
  const reason = expect.stringMatching(/^retry\(\) needs a handler's path .*, found "\.\.\/x"$/);
  expect(stderr).toContain('queue/out (job 1) failed after');
  expect(readJobRuns(root, id)).toMatchObject([{ outcome: 'failed', reason }]);
  expect(readJobRow(root, id)).toMatchObject({ state: 'failed', name: 'out', reason });
  checkInvariants(root);
});

test('with --for it waits for jobs until its time is over', async () => {
  const root = makeSite();
  const worker = startCommand(['--root', root, 'work', '--for', '3s'], cronPlace(root));
  const running = () => queryLog(root, "select 1 from workers where kind = 'queue' and state = 'running'").length > 0;
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
  const { status, stderr } = await worker.ended;
  // Whichever of the two it was told of first.
  expect([143, 130]).toContain(status);
  expect(stderr).toBe('');
  expect(readJobRow(root, id)).toMatchObject({ state: 'retrying', attempts: 0 });
  expect(readJobRuns(root, id)).toMatchObject([
    { outcome: 'released', reason: 'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM' },
  ]);
  checkInvariants(root);
});

test('a handler that is ended by a second signal says itself with what it goes on', async () => {
  const root = makeSite({
    'jobs/queue/heeds.mjs': `import { writeFileSync } from 'node:fs';
export default async ({ signal, retry }) => {
  const timer = setTimeout(() => {}, 60_000);
  const told = new Promise((resolve) => signal.addEventListener('abort', resolve));
  writeFileSync('begun', '');
  await told;
  clearTimeout(timer);
  retry({ delay: '1h', data: { at: 4 } });
};\n`,
  });
  const id = await addJob(root, 'heeds');
  const worker = startWaiting(root);
  await until('it has begun', () => existsSync(join(root, 'begun')), WITHIN_MS);
  worker.kill('SIGTERM');
  worker.kill('SIGINT');
  expect((await worker.ended).stderr).toBe('');
  const [run] = readJobRuns(root, id);
  expect(run).toMatchObject({ outcome: 'released' });
  const job = readJobRow(root, id);
  expect(job).toMatchObject({ state: 'retrying', data: '{"at":4}', attempts: 0 });
  expect(job.run_at - (run?.finished_at ?? 0)).toBe(3_600_000);
  checkInvariants(root);
});

test('a job whose process is ended together with its worker is given back, too', async () => {
  const root = makeSite();
  const id = await addJob(root, 'waits');
  const worker = startWaiting(root);
  await untilRuns(root);
  const pids = listRunProcesses(root).map(({ pid }) => pid);
  expect(pids).not.toEqual([]);
  worker.kill('SIGTERM');
  for (const pid of pids) endIfThere(pid);
  await worker.ended;
  expect(readJobRow(root, id)).toMatchObject({ state: 'retrying', attempts: 0 });
  expect(readJobRuns(root, id)).toMatchObject([{ outcome: 'released', signal: 'SIGTERM' }]);
});

/** The worker, which was told first, may have been sooner. */
function endIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

test.each(['.runner/restart', 'runner.config.json', 'runner.config.mts', '.env', 'deployed'])(
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
  expect(queryLog(root, skipped)).toEqual([{ reason: '1 queue workers were already running (workers.max is 1)' }]);
  await endInPeace(root, worker);
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
  ['--for', 'soon', 'a duration such as 30s, 10m or 2h'],
  ['--for', '100001d', 'a duration of at most 100000d'],
  ['--wait', '10', 'a duration such as 30s, 10m or 2h'],
  ['--wait', '-1s', 'a duration such as 30s, 10m or 2h'],
  ['--max-jobs', '0', 'a whole number from 1 to 1000000000'],
  ['--concurrency', '65', 'a whole number from 1 to 64'],
  ['--max-load', '-1', 'a number above 0, up to 10000'],
  ['--max-memory', '5', 'a size such as 64mb, 512mb or 1gb'],
  ['--watch-file', '', 'a path'],
])('%s %s is refused', (option, value, expected) => {
  const root = makeSite();
  const { status, stderr } = work(root, `${option}=${value}`);
  expect(stderr).toBe(`runner: ${option} must be ${expected}, found "${value}".\n`);
  expect(status).toBe(2);
});
