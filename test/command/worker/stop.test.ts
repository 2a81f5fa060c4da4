import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, runCommand, type Started, startCommand } from '../../support/command.ts';
import { endOrphans, holdLog } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const forever = 'touch started; while :; do sleep 0.02; done';

async function startPass(root: string): Promise<Started> {
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('the first script runs', () => existsSync(join(root, 'started')));
  return pass;
}

const jobs = 'select name, state, reason from jobs order by id';

test.each([
  ['SIGTERM', 143, 'queued'],
  ['SIGINT', 130, 'cancelled'],
  ['SIGHUP', 129, 'queued'],
] as const)('%s ends what runs, records it all and exits %i; the rest is %s', async (signal, exitCode, rest) => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(`#!/bin/sh\ntrap 'echo asked to end; exit 9' TERM\n${forever}`),
    'jobs/hourly/b.sh': executable('#!/bin/sh\ntouch never\n'),
  });
  const pass = await startPass(root);
  pass.kill(signal);
  const { status, stderr } = await pass.ended;
  expect(status).toBe(exitCode);
  expect(stderr).toContain('hourly/a failed');
  const stopped = 'stopped because the runner was stopped (Ctrl-C or kill), exited with code 9 after SIGTERM';
  expect(queryLog(root, 'select script, outcome, reason, output from runs')).toEqual([
    {
      script: 'hourly/a',
      outcome: 'failed',
      reason: stopped,
      // The shell itself may add that its `sleep` was ended.
      output: expect.stringContaining('asked to end\n'),
    },
  ]);
  const told = `the runner was told to stop by ${signal}`;
  expect(queryLog(root, jobs)).toEqual([
    { name: 'hourly/a', state: 'failed', reason: stopped },
    { name: 'hourly/b', state: rest, reason: told },
  ]);
  expect(queryLog(root, 'select state, reason from workers')).toEqual([{ state: 'finished', reason: told }]);
  expect(existsSync(join(root, 'never'))).toBe(false);
  expect(readdirSync(join(root, '.runner', 'locks'))).toEqual([]);
});

test('a script that does not mind SIGTERM at all is recorded as ended by it', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable(`#!/bin/sh\n${forever}`) });
  const pass = await startPass(root);
  pass.kill('SIGTERM');
  expect((await pass.ended).status).toBe(143);
  expect(queryLog(root, 'select outcome, signal, reason from runs')).toEqual([
    {
      outcome: 'failed',
      signal: 'SIGTERM',
      reason: 'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM',
    },
  ]);
});

test('a second signal ends the runner at once, and its tier is free for the next pass', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(`#!/bin/sh\n[ -e started ] && exit 0\ntrap 'touch asked' TERM\n${forever}`),
  });
  endOrphans(root);
  const pass = await startPass(root);
  pass.kill('SIGTERM');
  await until('the script was asked to end', () => existsSync(join(root, 'asked')));
  const askedAt = performance.now();
  pass.kill('SIGTERM');
  expect((await pass.ended).status).toBe(143);
  // Far less than the ten seconds of grace that a first signal gives.
  expect(performance.now() - askedAt).toBeLessThan(5_000);
  const next = runCommand(['hourly', '--root', root], cronPlace(root));
  expect(next).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(queryLog(root, 'select outcome from runs order by id')).toEqual([
    { outcome: 'crashed' },
    { outcome: 'succeeded' },
  ]);
  expect(readdirSync(join(root, '.runner', 'locks'))).toEqual([]);
});

test('a second signal ends the runner at once, though another program keeps the log locked', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(`#!/bin/sh\ntrap 'touch ended; exit 1' TERM\n${forever}`),
  });
  const pass = await startPass(root);
  await holdLog(root, 60_000);
  pass.kill('SIGTERM');
  await until('the script has ended', () => existsSync(join(root, 'ended')));
  const askedAt = performance.now();
  pass.kill('SIGTERM');
  expect((await pass.ended).status).toBe(143);
  // Far less than the log is waited for.
  expect(performance.now() - askedAt).toBeLessThan(10_000);
});
