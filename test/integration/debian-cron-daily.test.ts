import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type Ended, runCommand } from '../support/command.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';

const DEBIAN = '/etc/cron.daily';
const SHIPPED = ['apt-compat', 'dpkg', 'logrotate', 'man-db'];
/** Where they find programs: `/etc/crontab` says so above the line that calls them. */
const PATH = '/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin';
/** As cron gives it, and nothing else. */
const CRON = { HOME: '/root', LOGNAME: 'root', SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
const BACKUP = '/var/backups/dpkg.status.0';
const LOGROTATE_STATUS = '/var/lib/logrotate/status';
const MAN_INDEX = '/var/cache/man/index.db';

type Runner = (...args: string[]) => Ended;

interface Run {
  readonly id: number;
  readonly script: string;
  readonly durationMs: number;
  readonly userCpuMs: number;
  readonly systemCpuMs: number;
  readonly maxRssBytes: number;
  readonly output: string;
}

beforeAll(() => {
  const missing = SHIPPED.filter((name) => !readdirSync(DEBIAN).includes(name));
  if (missing.length === 0) return;
  throw new Error(`No ${missing.join(', ')} in ${DEBIAN}: install logrotate and man-db first.`);
});

test("Debian's own daily scripts run as they are and are logged one by one", () => {
  const root = makeTemporaryRoot();
  // What other packages have put there goes by the machine.
  for (const name of SHIPPED) cpSync(join(DEBIAN, name), join(root, 'jobs/daily', name));
  configure(root);
  // So that they have work to do, and it shows that they did it.
  for (const file of [BACKUP, MAN_INDEX]) rmSync(file, { force: true });
  const begunAt = Date.now();

  const ended = runnerOf(root)('daily');

  const runs = readRuns(runnerOf(root));
  for (const run of runs) expectMeasuredSuccess(run);
  // The shell itself stays below two ticks of 10 ms: this is what its children used, however fast the processor is.
  const indexing = runs.find(({ script }) => script === 'daily/man-db');
  expect(indexing?.userCpuMs).toBeGreaterThan(20);
  expect(ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(runs.map(({ script }) => script)).toEqual(runPartsOrder(join(root, 'jobs/daily')));
  expect(outputs(runs)).toMatchObject({
    'daily/apt-compat': expect.stringMatching(/^verbose level 1\n/),
    'daily/dpkg': '',
    'daily/logrotate': '',
    'daily/man-db': '',
  });
  for (const file of [BACKUP, MAN_INDEX]) expect(statSync(file).size).toBeGreaterThan(0);
  expect(statSync(LOGROTATE_STATUS).mtimeMs).toBeGreaterThanOrEqual(begunAt - 1000);
});

test('a logrotate with a broken configuration is logged with what it said', () => {
  const root = makeTemporaryRoot({
    'jobs/daily/logrotate': executable(
      '#!/bin/sh\n/usr/sbin/logrotate --state "$RUNNER_TMPDIR/status" "$RUNNER_ROOT/broken"\n',
    ),
    broken: '/nowhere/*.log {\n  rotate often\n}\n',
  });

  const ended = runnerOf(root)('daily');

  expect(ended.status).toBe(1);
  expect(ended.stderr).toContain('daily/logrotate');
  const runs = readRuns(runnerOf(root));
  expect(runs).toMatchObject([{ outcome: 'failed', exitCode: 1, signal: null, error: null }]);
  expect(runs[0]?.output).toContain(`error: ${root}/broken:2`);
});

function runnerOf(root: string): Runner {
  return (...args) => runCommand(['--root', root, ...args], { cwd: '/', env: CRON });
}

/** Apt waits up to 30 minutes otherwise, so that not all machines ask the mirrors at once. */
function configure(root: string): void {
  const file = join(root, 'apt.conf');
  writeFileSync(file, 'APT::Periodic::RandomSleep "0";\nAPT::Periodic::Verbose "1";\n');
  writeFileSync(join(root, 'runner.config.json'), JSON.stringify({ env: { PATH, APT_CONFIG: file } }));
}

function runPartsOrder(folder: string): string[] {
  const list = execFileSync('run-parts', ['--test', folder], { encoding: 'utf8' });
  return list.trim().replaceAll(`${folder}/`, 'daily/').split('\n');
}

/** Read as a user's program would, in the order in which they ran. */
function readRuns(run: Runner): Run[] {
  const { scripts } = JSON.parse(run('report', '--json').stdout);
  return (scripts as { lastRun: Run }[])
    .map(({ lastRun }) => lastRun.id)
    .sort((a, b) => a - b)
    .map((id) => JSON.parse(run('show', String(id), '--json').stdout));
}

function outputs(runs: readonly Run[]): Record<string, string> {
  return Object.fromEntries(runs.map(({ script, output }) => [script, output]));
}

function expectMeasuredSuccess(run: Run): void {
  const { script, output } = run;
  expect(run, `${script}: ${output}`).toMatchObject({
    outcome: 'succeeded',
    exitCode: 0,
    signal: null,
    error: null,
    measuredBy: 'sampled',
  });
  expect(run.durationMs).toBeGreaterThan(0);
  // Null is refused; 0 is what the kernel says below one tick of 10 ms.
  for (const cpuMs of [run.userCpuMs, run.systemCpuMs]) expect(cpuMs).toBeTypeOf('number');
  // A shell alone has more than half a megabyte. What is over at once, on a busy machine, nobody may have seen.
  const isOverAtOnce = run.durationMs < 300 && run.maxRssBytes === null;
  if (!isOverAtOnce) expect(run.maxRssBytes).toBeGreaterThan(512 * 1024);
}
