import { readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { identifyProcess } from '../../src/system/process/identity.ts';
import { startProcess } from '../support/command.ts';
import { listFaultPoints, runWithFault } from '../support/faults/faults.ts';
import { checkInvariants, HOLD, nodeScript, shellScript } from '../support/faults/invariants.ts';
import { listRunProcesses } from '../support/faults/log-content.ts';
import { changeLog, queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

/*
 * What a dead runner left, told apart from what lives: by host, boot, pid and start of the process.
 * Each test has a pass that really died, and then changes one of the four in its rows and its lock.
 */

const scripts = { 'jobs/hourly/a.sh': shellScript({ tags: ['@timeout 1h'] }), 'jobs/daily/other.sh': shellScript() };

/** A pass that died when its script had just started, or had its row; the script has ended, or lives while `hold` is there. */
async function leaveDeadPass(files: Parameters<typeof makeTemporaryRoot>[0], { lives = false, hasRow = false } = {}) {
  const root = makeTemporaryRoot(files);
  if (lives || hasRow) writeFileSync(join(root, HOLD), '');
  const at = hasRow ? await findCommitOfRun() : 'spawn#1';
  expect((await runWithFault(root, ['hourly'], { at: `after ${at}` })).status).toBeNull();
  expect(queryLog(root, 'select outcome from runs')).toHaveLength(hasRow ? 1 : 0);
  if (hasRow && !lives) rmSync(join(root, HOLD));
  if (!lives) await untilNothingRuns(root);
  return root;
}

async function findCommitOfRun(): Promise<string | undefined> {
  const points = await listFaultPoints(makeTemporaryRoot(scripts), ['hourly']);
  return points.slice(points.indexOf('sql insert runs#1')).find((point) => point.startsWith('sql commit'));
}

const untilNothingRuns = (root: string) => until('nothing runs', () => listRunProcesses(root).length === 0);

/** Rows of the log as another moment, another boot or another machine would have written them. */
function rewrite(root: string, sql: string, ...values: unknown[]): void {
  expect(changeLog(root, sql, ...values)).toBe(1);
}

/** A program that has nothing to do with the runner, as one that got a dead one's pid. */
function startStranger(): number {
  return startProcess('/bin/sleep', ['60'], { cwd: '/', env: {} }).pid;
}

const isAlive = (pid: number): boolean => identifyProcess(pid).startTicks !== null;
const workers = 'select kind, tier, state from workers order by id';
const hourly = `select state, (select count(*) from runs where job_id = jobs.id) as runs from jobs
  where tier = 'hourly'`;
const outcomes = 'select outcome from runs order by id';
const rescued = [
  { kind: 'tier', tier: 'hourly', state: 'crashed' },
  { kind: 'tier', tier: 'hourly', state: 'finished' },
];
const notRescued = [
  { kind: 'tier', tier: 'hourly', state: 'running' },
  { kind: 'tier', tier: 'hourly', state: 'skipped' },
];

test('a runner whose pid another program has by now is dead', async () => {
  const root = await leaveDeadPass(scripts);
  const stranger = startStranger();
  rewrite(root, 'update workers set pid = ?', stranger);
  await runWithFault(root, ['hourly']);
  expect(queryLog(root, workers)).toEqual(rescued);
  expect(queryLog(root, outcomes)).toEqual([{ outcome: 'crashed' }, { outcome: 'succeeded' }]);
  expect(isAlive(stranger)).toBe(true);
  checkInvariants(root);
});

test('a runner of an earlier boot is dead, even if pid and start are those of a process', async () => {
  const root = await leaveDeadPass(scripts);
  const { pid, startTicks } = identifyProcess(startStranger());
  rewrite(root, "update hosts set boot_id = 'earlier'");
  rewrite(root, 'update workers set pid = ?, pid_start_ticks = ?', pid, startTicks);
  await runWithFault(root, ['hourly']);
  expect(queryLog(root, workers)).toEqual(rescued);
  expect(isAlive(pid)).toBe(true);
  checkInvariants(root);
});

test('a runner that is the process it says it is, is left alone', async () => {
  const root = await leaveDeadPass(scripts);
  const { pid, startTicks } = identifyProcess(startStranger());
  rewrite(root, 'update workers set pid = ?, pid_start_ticks = ?', pid, startTicks);
  await runWithFault(root, ['hourly']);
  await runWithFault(root, ['daily']);
  await runWithFault(root, ['report']);
  expect(queryLog(root, workers)).toEqual([...notRescued, { kind: 'tier', tier: 'daily', state: 'finished' }]);
  expect(queryLog(root, hourly)).toEqual([{ state: 'claimed', runs: 0 }]);
  expect(isAlive(pid)).toBe(true);
  process.kill(pid, 'SIGKILL');
  await until('it is gone', () => !isAlive(pid));
  await runWithFault(root, ['hourly']);
  checkInvariants(root);
});

test('a script whose pid another program has by now is not waited for, nor is that one ended', async () => {
  const root = await leaveDeadPass(
    { ...scripts, 'jobs/hourly/a.sh': shellScript({ tags: ['@timeout 1s'] }) },
    { hasRow: true },
  );
  const stranger = startStranger();
  const { startTicks } = identifyProcess(stranger);
  rewrite(root, 'update runs set pid = ?, pid_start_ticks = ?', stranger, Number(startTicks) - 1);
  // Its time limit is over, too: who took the stranger for the script would end it.
  await runWithFault(root, ['hourly'], { clockMs: 10_000 });
  expect(queryLog(root, outcomes)).toEqual([{ outcome: 'crashed' }, { outcome: 'succeeded' }]);
  expect(isAlive(stranger)).toBe(true);
  checkInvariants(root);
});

test('a script of an earlier boot is not waited for', async () => {
  const root = await leaveDeadPass(scripts, { hasRow: true });
  const stranger = startStranger();
  const { startTicks } = identifyProcess(stranger);
  rewrite(root, "update hosts set boot_id = 'earlier'");
  rewrite(root, 'update runs set pid = ?, pid_start_ticks = ?', stranger, startTicks);
  await runWithFault(root, ['hourly']);
  expect(queryLog(root, outcomes)).toEqual([{ outcome: 'crashed' }, { outcome: 'succeeded' }]);
  expect(isAlive(stranger)).toBe(true);
  checkInvariants(root);
});

test('a script in Node that ended before the machine went down has the end that it had', async () => {
  const root = await leaveDeadPass({ 'jobs/hourly/a.mjs': nodeScript({ exit: '7' }) });
  rewrite(root, "update hosts set boot_id = 'earlier'");
  await runWithFault(root, ['hourly']);
  expect(queryLog(root, 'select outcome, exit_code from runs order by id')).toEqual([
    { outcome: 'failed', exit_code: 7 },
    { outcome: 'failed', exit_code: 7 },
  ]);
  checkInvariants(root);
});

test('a script that outlives its runner is known by what it was started with, without its pid', async () => {
  const root = await leaveDeadPass(scripts, { lives: true });
  await until('the script has begun', () => listRunProcesses(root).length > 0);
  for (const command of ['daily', 'report', 'hourly']) await runWithFault(root, [command]);
  expect(queryLog(root, hourly)).toEqual([{ state: 'running', runs: 1 }]);
  await endHold(root);
  await runWithFault(root, ['hourly']);
  checkInvariants(root);
});

async function endHold(root: string): Promise<void> {
  rmSync(join(root, HOLD));
  await untilNothingRuns(root);
}

/** The dead pass as another host's: in the log and in the lock. */
async function leavePassOfAnotherHost(lockAgeMs: number, hasRow = false): Promise<string> {
  const root = await leaveDeadPass(scripts, { hasRow });
  const startedAt = Date.now() - lockAgeMs;
  rewrite(root, "update hosts set host = 'elsewhere'");
  rewrite(root, 'update workers set started_at = ?', startedAt);
  const lock = join(stateFolderOf(root).locks, 'hourly.lock');
  for (const name of readdirSync(lock)) {
    const path = join(lock, name);
    if (name.endsWith('.json')) {
      const holder = JSON.parse(readFileSync(path, 'utf8'));
      expect(holder.host).toBe(hostname());
      writeFileSync(path, JSON.stringify({ ...holder, host: 'elsewhere' }));
    }
    utimesSync(path, startedAt / 1000, startedAt / 1000);
  }
  return root;
}

test('a runner on another host is believed while its lock is fresh', async () => {
  const root = await leavePassOfAnotherHost(1_000);
  for (const command of ['hourly', 'daily', 'report']) await runWithFault(root, [command]);
  expect(queryLog(root, workers)).toEqual([...notRescued, { kind: 'tier', tier: 'daily', state: 'finished' }]);
  expect(queryLog(root, hourly)).toEqual([{ state: 'claimed', runs: 0 }]);
  expect(queryLog(root, outcomes)).toEqual([{ outcome: 'succeeded' }]);
});

test('a runner on another host whose lock nobody refreshes is dead', async () => {
  const root = await leavePassOfAnotherHost(3_600_000);
  await runWithFault(root, ['hourly']);
  expect(queryLog(root, workers)).toEqual(rescued);
});

test.each<[number, number | null]>([
  [1_800, 4711],
  [1_800, null],
  [7_200, 4711],
  [7_200, null],
])(
  'a script on another host cannot be seen from here, and has until its time limit: %d s, pid %s',
  async (seconds, pid) => {
    const root = await leavePassOfAnotherHost(seconds * 1000, true);
    rewrite(root, 'update runs set pid = ?, started_at = started_at - ?', pid, seconds * 1000);
    await runWithFault(root, ['hourly']);
    const isOver = seconds > 3_600;
    expect(queryLog(root, 'select outcome from runs where id = 1')).toEqual([
      { outcome: isOver ? 'crashed' : 'running' },
    ]);
    expect(queryLog(root, 'select count(*) as runs from runs')).toEqual([{ runs: isOver ? 2 : 1 }]);
  },
);
