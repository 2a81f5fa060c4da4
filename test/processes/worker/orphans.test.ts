import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, runCommand, startCommand } from '../../support/command.ts';
import { endOrphans, isAlive } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** Says that it runs, waits until it may end, then does what `rest` says. */
const waiting = (rest: string): string => `
  import { existsSync, writeFileSync } from 'node:fs';
  console.log('begun');
  writeFileSync('started', '');
  const timer = setInterval(() => { if (existsSync('go')) { clearInterval(timer); ${rest} } }, 10);
`;

const outcomes = 'select outcome, exit_code, measured_by, reason, output from runs order by id';
const jobs = 'select name, state, reason from jobs order by id';

/** A pass whose runner was killed while its only script ran. */
async function killRunner(root: string, afterMs = 0): Promise<void> {
  endOrphans(root);
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('the script runs', () => existsSync(join(root, 'started')));
  if (afterMs > 0) await until('its process is in the log', () => recordedPid(root) !== null);
  pass.kill('SIGKILL');
  await pass.ended;
}

function recordedPid(root: string): number | null {
  return queryLog<{ pid: number | null }>(root, 'select pid from runs')[0]?.pid ?? null;
}

const nextPass = (root: string) => runCommand(['hourly', '--root', root], cronPlace(root));
const endScript = (root: string): void => writeFileSync(join(root, 'go'), '');
const leftFiles = (root: string): string[] =>
  ['output', 'results', 'tmp'].flatMap((name) => readdirSync(join(root, '.runner', name)));

async function untilResult(root: string): Promise<void> {
  const results = join(root, '.runner', 'results');
  await until('the script has ended', () => readdirSync(results).some((name) => name.endsWith('.json')));
}

test.each([
  ['console.log("done");', { outcome: 'succeeded', exit_code: 0, reason: null }],
  ['process.exit(4);', { outcome: 'failed', exit_code: 4, reason: 'exit code 4' }],
  ['throw new Error("late");', { outcome: 'failed', exit_code: 1, reason: 'exit code 1: Error: late' }],
])('a script that ends after its runner died has its true end: %s', async (rest, end) => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.mjs': waiting(rest) });
  await killRunner(root);
  endScript(root);
  await untilResult(root);
  nextPass(root);
  const [lost] = queryLog<{ output: string }>(root, outcomes);
  expect(lost).toMatchObject({ ...end, measured_by: 'self' });
  expect(lost?.output).toMatch(/^begun\n/);
  expect(queryLog(root, 'select state from jobs where id = 1')).toEqual([
    { state: end.outcome === 'succeeded' ? 'finished' : 'failed' },
  ]);
  expect(leftFiles(root)).toEqual([]);
});

test.each([
  ['its process was written down', 100],
  ['its runner died before it wrote the process down', 0],
])('a script that outlives its runner is not started a second time: %s', async (_, afterMs) => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.mjs': waiting('console.log("done");'),
    'jobs/hourly/b.sh': 'exit 0\n',
  });
  await killRunner(root, afterMs);
  expect(nextPass(root).status).toBe(0);
  expect(queryLog(root, 'select script, outcome from runs order by id')).toEqual([
    { script: 'hourly/a', outcome: 'running' },
    { script: 'hourly/b', outcome: 'succeeded' },
  ]);
  const detail = expect.stringMatching(
    /^hourly\/a is still running \(pid .+\), left by a runner that died \(pid \d+ on .+\)$/,
  );
  const told = "select detail from activity where event = 'run-orphaned'";
  expect(queryLog(root, told)).toEqual([{ detail }]);
  expect(queryLog(root, jobs)).toContainEqual({ name: 'hourly/a', state: 'running', reason: null });
  endScript(root);
  await untilResult(root);
  nextPass(root);
  expect(queryLog(root, "select outcome from runs where script = 'hourly/a'")).toEqual([
    { outcome: 'succeeded' },
    { outcome: 'succeeded' },
  ]);
});

test('a run that died with its runner has crashed, with its output', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(
      '#!/bin/sh\n[ -e started ] && exit 0\necho one; echo two; touch started; sleep 60\n',
    ),
  });
  await killRunner(root, 100);
  process.kill(-Number(recordedPid(root)), 'SIGKILL');
  // Killed while it wrote its result down.
  writeFileSync(join(root, '.runner/results/1.1.json.4711'), '{"exitCode":');
  nextPass(root);
  const [crashed, next] = queryLog<{ outcome: string; reason: string; output: string }>(root, outcomes);
  expect(crashed).toMatchObject({ outcome: 'crashed', output: 'one\ntwo\n' });
  expect(crashed?.reason).toMatch(/^the runner \(pid \d+ on .+\) died while it ran.*; its last output line: two/);
  expect(next).toMatchObject({ outcome: 'succeeded' });
  expect(leftFiles(root)).toEqual([]);
});

test('a script that outlives its runner is ended at its time limit', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\n# @timeout 2s\n[ -e started ] && exit 0\ntouch started; sleep 60\n'),
  });
  await killRunner(root, 100);
  const pid = Number(recordedPid(root));
  await until('it is overdue', () => {
    nextPass(root);
    return queryLog<{ outcome: string }>(root, outcomes)[0]?.outcome !== 'running';
  });
  const [overdue] = queryLog<{ reason: string }>(root, outcomes);
  expect(overdue).toMatchObject({ outcome: 'timed-out' });
  expect(overdue?.reason).toMatch(/^ran into its time limit after its runner \(.+\) had died/);
  await until('nothing of it is left', () => !isAlive(-pid));
});
