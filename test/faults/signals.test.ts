import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { cronPlace, type Ended, type Started, startCommand } from '../support/command.ts';
import { runWithFault } from '../support/faults/faults.ts';
import {
  checkInvariants,
  findViolations,
  HOLD,
  nodeScript,
  readEvidence,
  shellScript,
} from '../support/faults/invariants.ts';
import { listOpenJobs, listRunProcesses, readLog } from '../support/faults/log-content.ts';
import { createRandom, rounds, seed, someAtATime } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

const waiting = (tags = ''): string => `#!/bin/sh\n# ${tags}\ntouch started\nwhile [ ! -e go ]; do sleep 0.02; done\n`;

const start = (root: string): Started => startCommand(['--root', root, 'hourly'], cronPlace(root));
const outcomes = 'select outcome, exit_code, signal, reason from runs order by id';
const hasStarted = (root: string) => (): boolean => existsSync(join(root, 'started'));

/** The script's own process: the leader of its group. */
function findLeader(root: string): number {
  const [leader] = listRunProcesses(root).map(({ pid }) => pid);
  if (leader === undefined) throw new Error('No script runs.');
  return leader;
}

test.each<NodeJS.Signals>(['SIGKILL', 'SIGTERM', 'SIGSEGV', 'SIGHUP'])(
  'a script that somebody else ends by %s was killed, and the pass goes on',
  async (signal) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable(waiting()), 'jobs/hourly/b.sh': shellScript() });
    const pass = start(root);
    await until('the script runs', hasStarted(root));
    process.kill(findLeader(root), signal);
    expect((await pass.ended).status).toBe(1);
    const reason = expect.stringContaining(`killed by ${signal}, not by the runner`);
    expect(queryLog(root, outcomes)).toEqual([
      { outcome: 'killed', exit_code: null, signal, reason },
      { outcome: 'succeeded', exit_code: 0, signal: null, reason: null },
    ]);
    await until('nothing runs', () => listRunProcesses(root).length === 0);
    checkInvariants(root);
  },
);

test('a script that is stopped runs into its time limit all the same, and dies stopped', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable(waiting('@timeout 1s')) });
  const pass = start(root);
  await until('the script runs', hasStarted(root));
  process.kill(findLeader(root), 'SIGSTOP');
  expect((await pass.ended).status).toBe(1);
  const reason = expect.stringMatching(/^timed out after 1.* ended with SIGKILL after 10s of grace$/);
  expect(queryLog(root, outcomes)).toEqual([{ outcome: 'timed-out', exit_code: null, signal: 'SIGKILL', reason }]);
  checkInvariants(root);
});

test('a script that is stopped for a while and goes on has done nothing wrong', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable(waiting()) });
  const pass = start(root);
  await until('the script runs', hasStarted(root));
  const leader = findLeader(root);
  process.kill(leader, 'SIGSTOP');
  writeFileSync(join(root, 'go'), '');
  await sleep(300); // Not a wait for anything: this long it stands still.
  expect(queryLog(root, outcomes)).toMatchObject([{ outcome: 'running' }]);
  process.kill(leader, 'SIGCONT');
  expect((await pass.ended).status).toBe(0);
  expect(queryLog(root, outcomes)).toMatchObject([{ outcome: 'succeeded' }]);
  checkInvariants(root);
});

test('a runner that is stopped keeps its work: others leave it alone, and it goes on', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(waiting()),
    'jobs/hourly/b.sh': shellScript(),
    'jobs/daily/other.sh': shellScript(),
  });
  const pass = start(root);
  await until('the script runs', hasStarted(root));
  await until('others can see it', () => queryLog(root, outcomes).length === 1);
  process.kill(pass.pid, 'SIGSTOP');
  writeFileSync(join(root, 'go'), '');
  await until('the script has ended', () => listRunProcesses(root).length === 0);
  for (const tier of ['hourly', 'daily']) await runWithFault(root, [tier]);
  expect(queryLog(root, 'select tier, state from workers order by id')).toEqual([
    { tier: 'hourly', state: 'running' },
    { tier: 'hourly', state: 'skipped' },
    { tier: 'daily', state: 'finished' },
  ]);
  expect(queryLog(root, outcomes)).toMatchObject([{ outcome: 'running' }, { outcome: 'succeeded' }]);
  process.kill(pass.pid, 'SIGCONT');
  expect((await pass.ended).status).toBe(0);
  expect(queryLog(root, 'select distinct outcome from runs')).toEqual([{ outcome: 'succeeded' }]);
  checkInvariants(root);
});

/** What befalls a pass at some moment; in each case nobody says a word to it before. */
const blows = {
  'the runner is killed': (pass) => pass.kill('SIGKILL'),
  'the script is killed': (_, script) => script !== null && killIfThere(script, 'SIGKILL'),
  'both are killed': (pass, script) => {
    pass.kill('SIGKILL');
    if (script !== null) killIfThere(script, 'SIGKILL');
  },
  'the runner is stopped for a while': async (pass) => {
    pass.kill('SIGSTOP');
    await sleep(150);
    pass.kill('SIGCONT');
  },
  'the runner is stopped, then killed': async (pass) => {
    pass.kill('SIGSTOP');
    await sleep(50);
    pass.kill('SIGKILL');
  },
  'the script is stopped for a while': async (_, script) => {
    if (script === null) return;
    killIfThere(script, 'SIGSTOP');
    await sleep(150);
    killIfThere(script, 'SIGCONT');
  },
} satisfies Record<string, (pass: Started, script: number | null) => unknown>;

type Blow = keyof typeof blows;

function killIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

test(`whatever is killed or stopped, at whatever moment (FAULT_SEED=${seed})`, async () => {
  const random = createRandom();
  const names = Object.keys(blows) as Blow[];
  const planned = Array.from({ length: rounds(5) }, () =>
    names.map((name) => ({ name, afterMs: Math.floor(random() * 700), outlives: random() < 0.5 })),
  ).flat();
  const told = await someAtATime(planned, async (plan) => {
    const wrong = await strike(plan.name, plan.afterMs, plan.outlives);
    return wrong.map((each) => `${plan.name} after ${plan.afterMs} ms: ${each}`);
  });
  expect(told.flat()).toEqual([]);
}, 300_000);

async function strike(name: Blow, afterMs: number, outlives: boolean): Promise<string[]> {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': shellScript({ tags: ['@retries 2', '@retry-delay 1ms', '@on-crash retry'], lastsMs: 100 }),
    'jobs/hourly/b.mjs': nodeScript({ tags: ['@retries 2', '@retry-delay 1ms'], lastsMs: 100 }),
    'jobs/hourly/c.sh': shellScript({ lastsMs: 50, exit: '4' }),
    'jobs/daily/other.sh': shellScript(),
  });
  if (outlives) writeFileSync(join(root, HOLD), '');
  const pass = start(root);
  await Promise.race([sleep(afterMs), pass.ended]);
  await blows[name](pass, listRunProcesses(root)[0]?.pid ?? null);
  await pass.ended;
  if (outlives) await runWithFault(root, ['hourly']);
  rmSync(join(root, HOLD), { force: true });
  await until('nothing runs', () => listRunProcesses(root).length === 0);
  const ended = [await runWithFault(root, ['daily']), await runWithFault(root, ['hourly'])];
  return [...tellBreakdowns(ended), ...findViolations(root), ...tellUndone(root)];
}

function tellBreakdowns(ended: readonly Ended[]): string[] {
  return ended.flatMap(({ status, stderr }) =>
    status === 0 || status === 1 ? [] : [`a later pass ended with ${status}: ${stderr}`],
  );
}

/** Nothing waits any more, and each script has come to its end at least once. */
function tellUndone(root: string): string[] {
  const log = readLog(root);
  const open = log === null ? [] : listOpenJobs(log);
  const seen = readEvidence(root).filter(({ exitCode }) => exitCode !== null);
  const names = ['hourly/a', 'hourly/b', 'hourly/c', 'daily/other'];
  return [
    ...open.map(({ name, state }) => `${name} is ${state}`),
    ...names
      .filter((name) => !seen.some(({ script }) => script === name))
      .map((name) => `${name} never came to its end`),
  ];
}
