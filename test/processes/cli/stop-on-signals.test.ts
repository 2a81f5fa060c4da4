import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { commandPath, cronEnv } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

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
