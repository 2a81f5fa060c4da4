import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { queryLog } from '../support/open-log.ts';
import { commandPath } from '../support/run-command.ts';
import { cronEnv, readRuns } from '../support/run-pass.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { until } from '../support/until.ts';

test.for([
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const)(
  '%s ends what runs, records it, starts nothing more and exits %i',
  async ([signal, code]) => {
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
    await until(
      'the script runs',
      () => existsSync(childFile) && readFileSync(childFile).length > 0,
    );
    const ended = once(pass, 'exit');
    pass.kill(signal);
    const printed = await text(pass.stderr);
    expect(await ended).toEqual([code, null]);
    expect(printed).toContain('stopped with the runner, ended with SIGTERM');
    const { runs } = readRuns(root);
    expect(runs).toHaveLength(1);
    expect(runs[0]).toMatchObject({
      outcome: 'failed',
      output: 'working\n',
      reason: 'stopped with the runner, ended with SIGTERM',
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
  },
);
