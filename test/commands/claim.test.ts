import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { inRoot } from '../support/in-root.ts';
import { jsonOf, makeQueueSite } from '../support/queue-site.ts';
import { commandPath } from '../support/run-command.ts';
import { cronEnv } from '../support/run-pass.ts';
import { startCommand } from '../support/start-command.ts';

describe('runner claim', () => {
  test('prints the job with the token by which it is ended', () => {
    const root = makeQueueSite();
    inRoot(root, 'add', 'mail/welcome', '{"to":"a"}');
    const { status, stdout, stderr } = inRoot(root, 'claim');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const job = JSON.parse(stdout);
    expect(job).toMatchObject({
      id: 1,
      name: 'mail/welcome',
      state: 'running',
      data: { to: 'a' },
      attempt: 1,
      parentData: null,
      children: { finished: [], failed: [], cancelled: [] },
    });
    expect(inRoot(root, 'job', '1', 'finish', '--token', job.token).status).toBe(0);
  });

  test('exits 1 and prints nothing when there is none', () => {
    const root = makeQueueSite();
    const nothing = { status: 1, stdout: '', stderr: '' };
    expect(inRoot(root, 'claim')).toEqual(nothing);
    inRoot(root, 'add', 'export', '--at', '+1h');
    expect(inRoot(root, 'claim')).toEqual(nothing);
    inRoot(root, 'add', 'export');
    expect(inRoot(root, 'claim', 'mail/*', 'expor')).toEqual(nothing);
    expect(inRoot(root, 'claim', 'mail/*', 'expor?').status).toBe(0);
  });

  test('takes several, for as long as it is told', () => {
    const root = makeQueueSite();
    for (let count = 0; count < 3; count += 1) inRoot(root, 'add', 'export');
    const before = Date.now();
    const { jobs } = jsonOf(inRoot(root, 'claim', '--count', '2', '--lease', '2h'));
    expect(jobs.map(({ id }: { id: number }) => id)).toEqual([1, 2]);
    for (const { leasedUntil } of jobs) {
      expect(Date.parse(leasedUntil)).toBeGreaterThanOrEqual(before + 7_200_000);
    }
    expect(jsonOf(inRoot(root, 'claim', '--count', '2')).jobs).toHaveLength(1);
  });

  test('waits for a job that another process adds', async () => {
    const root = makeQueueSite();
    inRoot(root, 'add', 'export', '--at', '+1h');
    const waiting = startCommand(['claim', 'mail/*', '--wait', '40s'], {
      cwd: root,
      env: cronEnv(root),
    });
    inRoot(root, 'add', 'mail/welcome');
    expect(await waiting.ended).toMatchObject({ status: 0, stderr: '' });
    expect(inRoot(root, 'job', '2').stdout).toContain('job 2 · running');
  });

  test('gives up when the wait is over', () => {
    const root = makeQueueSite();
    const startMs = performance.now();
    expect(inRoot(root, 'claim', '--wait', '300ms')).toEqual({ status: 1, stdout: '', stderr: '' });
    expect(performance.now() - startMs).toBeGreaterThan(300);
  });

  test('a wait that is broken off by a signal has claimed nothing', async () => {
    const root = makeQueueSite();
    inRoot(root, 'add', 'export', '--at', '+1h');
    const child = spawn(process.execPath, [commandPath, 'claim', '--wait', '1h'], {
      cwd: root,
      env: cronEnv(root),
      stdio: 'ignore',
    });
    const exit = once(child, 'exit');
    const signalling = setInterval(() => child.kill('SIGTERM'), 50);
    // Before it listens, the signal ends it as any other process.
    const [code, signal] = await exit.finally(() => clearInterval(signalling));
    expect([143, null]).toContain(code);
    if (code === null) expect(signal).toBe('SIGTERM');
    expect(jsonOf(inRoot(root, 'job', '1', '--json'))).toMatchObject({
      state: 'queued',
      attempts: 0,
    });
  });

  test('what nobody reads is given back, and was no try', async () => {
    const root = makeQueueSite();
    inRoot(root, 'add', 'export');
    const child = spawn(process.execPath, [commandPath, 'claim'], {
      cwd: root,
      env: cronEnv(root),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout.destroy();
    const [code] = await once(child, 'exit');
    expect(code).toBe(1);
    expect(jsonOf(inRoot(root, 'job', '1', '--json'))).toMatchObject({
      state: 'queued',
      attempts: 0,
    });
    expect(jsonOf(inRoot(root, 'claim'))).toMatchObject({ id: 1, attempt: 1 });
  });

  test.each([
    [['--wait', 'long'], 'expects a duration'],
    [['--lease', '5'], 'A lease expects a duration'],
    [['--count', '0'], '--count expects a whole number from 1'],
  ])('%j is wrong use', (args, message) => {
    const { status, stdout, stderr } = inRoot(makeQueueSite(), 'claim', ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});
