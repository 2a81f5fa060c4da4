import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { commandPath, cronEnv, readRuns } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

test.for([
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const)('%s ends what runs, records it, starts nothing more and exits %i', async ([signal, code]) => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'echo working; sleep 60 & echo $! >"$RUNNER_ROOT/child"; wait\n',
    'jobs/hourly/b.sh': 'touch "$RUNNER_ROOT/never"\n',
  });
  const pass = spawn(process.execPath, [commandPath, 'hourly'], {
    cwd: root,
    env: cronEnv(root),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void pass.kill('SIGKILL'));
  const childFile = join(root, 'child');
  await until('the script runs', () => existsSync(childFile) && readFileSync(childFile).length > 0);
  const ended = once(pass, 'exit');
  pass.kill(signal);
  const printed = await text(pass.stderr);
  expect(await ended).toEqual([code, null]);
  expect(printed).toContain('stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM');
  const { runs } = readRuns(root);
  expect(runs).toHaveLength(1);
  expect(runs[0]).toMatchObject({
    outcome: 'failed',
    output: 'working\n',
    reason: 'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM',
  });
  expect(existsSync(join(root, 'never'))).toBe(false);
  expect(queryLog(root, 'select name, state from jobs order by id')).toEqual([
    { name: 'hourly/a', state: 'failed' },
    { name: 'hourly/b', state: signal === 'SIGINT' ? 'cancelled' : 'queued' },
  ]);
  expect(queryLog(root, 'select state, reason from workers')).toEqual([
    { state: 'finished', reason: `the runner was told to stop by ${signal}` },
  ]);
  const child = Number(readFileSync(childFile, 'utf8'));
  await until('the child is gone', () => !existsSync(`/proc/${child}/exe`));
});

test('a terminal that is closed lets a worker of the queue finish what it has in hand', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/slow.sh': 'touch "$RUNNER_ROOT/begun"; sleep 1\n' });
  const env = cronEnv(root);
  await once(spawn(process.execPath, [commandPath, 'add', 'slow'], { cwd: root, env }), 'exit');
  const work = `"${process.execPath}" "${commandPath}" work --for 1m`;
  const terminal = spawn('script', ['-qec', work, '/dev/null'], { cwd: root, env, stdio: 'ignore' });
  onTestFinished(() => void terminal.kill('SIGKILL'));
  await until('the job runs', () => existsSync(join(root, 'begun')));
  terminal.kill('SIGKILL');
  const stateOf = (table: string) => queryLog<{ state: string }>(root, `select state, reason from ${table}`);
  await until('the worker has ended', () => !stateOf('workers').some(({ state }) => state === 'running'));
  expect(stateOf('jobs')).toEqual([{ state: 'finished', reason: null }]);
  expect(stateOf('workers')).toEqual([{ state: 'finished', reason: 'the runner was told to stop by SIGHUP' }]);
  // It still writes Node's compile cache into its home, the root, when it exits.
  const [worker] = queryLog<{ pid: number }>(root, 'select pid from workers');
  await until('its process is gone', () => !existsSync(`/proc/${worker?.pid}`));
});
