import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { commandPath, cronEnv, inRoot, jsonOf, makeQueueSite, startCommand } from '../../support/command.ts';

describe('runner claim', () => {
  test('prints the job with the token by which it is ended', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'mail/welcome', '{"to":"a"}');
    const { status, stdout, stderr } = await inRoot(root, 'claim');
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
    expect((await inRoot(root, 'job', '1', 'finish', '--token', job.token)).status).toBe(0);
  });

  test('prints data letter by letter as it stands in the log: of the job, its children, its parent', async () => {
    const root = makeQueueSite();
    // Keys such as "7" come first in JavaScript, and of two that are the same it keeps one.
    const id = '9007199254740993, "7": 1.0, "7": 2';
    await inRoot(root, 'add', 'parent', `{"parent":${id}}`);
    await inRoot(root, 'claim', 'parent');
    await inRoot(root, 'add', 'child', `{"child":${id}}`, '--parent', '1');
    await inRoot(root, 'job', '1', 'finish');
    const words = (text: string): string => text.replaceAll(/\s+/g, ' ');
    const child = words((await inRoot(root, 'claim')).stdout);
    expect(child).toContain(`"child": ${id}`);
    expect(child).toContain(`"parent": ${id}`);
    const finished = await inRoot(root, 'job', '2', 'finish', '--result', `{"result":${id}}`, '--json');
    const told = [words(finished.stdout)];
    for (const command of ['job 2 --json', 'job 2', 'jobs --json', 'claim']) {
      told.push(words((await inRoot(root, ...command.split(' '))).stdout));
    }
    for (const stdout of told) expect(stdout).toContain(`"child": ${id}`);
    expect(told.filter((stdout) => stdout.includes(`"result": ${id}`))).toHaveLength(5);
  });

  test('exits 1 and prints nothing when there is none', async () => {
    const root = makeQueueSite();
    const nothing = { status: 1, stdout: '', stderr: '' };
    expect(await inRoot(root, 'claim')).toEqual(nothing);
    await inRoot(root, 'add', 'export', '--at', '+1h');
    expect(await inRoot(root, 'claim')).toEqual(nothing);
    await inRoot(root, 'add', 'export');
    expect(await inRoot(root, 'claim', 'mail/*', 'expor')).toEqual(nothing);
    expect((await inRoot(root, 'claim', 'mail/*', 'expor?')).status).toBe(0);
  });

  test('takes several, for as long as it is told', async () => {
    const root = makeQueueSite();
    for (let count = 0; count < 3; count += 1) await inRoot(root, 'add', 'export');
    const before = Date.now();
    const { jobs } = jsonOf(await inRoot(root, 'claim', '--count', '2', '--lease', '2h'));
    expect(jobs.map(({ id }: { id: number }) => id)).toEqual([1, 2]);
    for (const { leasedUntil } of jobs) {
      expect(Date.parse(leasedUntil)).toBeGreaterThanOrEqual(before + 7_200_000);
    }
    expect(jsonOf(await inRoot(root, 'claim', '--count', '2')).jobs).toHaveLength(1);
  });

  test('takes the one that is named, or only those above a priority', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export', '--priority', '900');
    await inRoot(root, 'add', 'mail/welcome', '--at', '+1h', '--lease', '7m');
    expect(jsonOf(await inRoot(root, 'claim', '--job', '2'))).toMatchObject({ id: 2, leaseMs: 420_000 });
    expect((await inRoot(root, 'job', '2')).stdout).toContain('lease         7m');
    const again = await inRoot(root, 'claim', '--job', '2');
    expect(again).toMatchObject({ status: 1, stdout: '', stderr: expect.stringContaining('is running, and only') });
    expect((await inRoot(root, 'claim', '--min-priority', '901')).status).toBe(1);
    expect(jsonOf(await inRoot(root, 'claim', '--min-priority', '900'))).toMatchObject({ id: 1 });
  });

  test('waits for a job that another process adds', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export', '--at', '+1h');
    const waiting = startCommand(['claim', 'mail/*', '--wait', '40s'], { cwd: root, env: cronEnv(root) });
    await inRoot(root, 'add', 'mail/welcome');
    expect(await waiting.ended).toMatchObject({ status: 0, stderr: '' });
    expect((await inRoot(root, 'job', '2')).stdout).toContain('job 2 · running');
  });

  test('waits no longer once a job that it still has is about to be lost', async () => {
    const root = makeQueueSite();
    for (const lease of ['1h', '1500ms']) await inRoot(root, 'add', 'export', '--lease', lease);
    await inRoot(root, 'claim', '--count', '2');
    const told = await inRoot(root, 'claim', '--wait', '40s', '--holding', '1', '--holding', '2');
    expect(told).toMatchObject({ status: 1, stdout: '' });
    expect(told.stderr).toContain('The claim of job 2 (export) expires within a second, so no other job is waited for');
  });

  test('a wait of nothing is none', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export', '--at', '+1h');
    expect(await inRoot(root, 'claim', '--wait', '0s')).toEqual({ status: 1, stdout: '', stderr: '' });
    await inRoot(root, 'add', 'export');
    expect(jsonOf(await inRoot(root, 'claim', '--wait', '0s'))).toMatchObject({ id: 2 });
  });

  test('gives up when the wait is over', async () => {
    const root = makeQueueSite();
    const startMs = performance.now();
    expect(await inRoot(root, 'claim', '--wait', '300ms')).toEqual({ status: 1, stdout: '', stderr: '' });
    expect(performance.now() - startMs).toBeGreaterThan(300);
  });

  test('a wait that is broken off by a signal has claimed nothing', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export', '--at', '+1h');
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
    expect(jsonOf(await inRoot(root, 'job', '1', '--json'))).toMatchObject({ state: 'queued', attempts: 0 });
  });

  test('what nobody reads is given back, and was no try', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export');
    const child = spawn(process.execPath, [commandPath, 'claim'], {
      cwd: root,
      env: cronEnv(root),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout.destroy();
    const [code] = await once(child, 'exit');
    expect(code).toBe(1);
    expect(jsonOf(await inRoot(root, 'job', '1', '--json'))).toMatchObject({ state: 'queued', attempts: 0 });
    expect(jsonOf(await inRoot(root, 'claim'))).toMatchObject({ id: 1, attempt: 1 });
  });

  test.each([
    [['--wait', 'long'], 'must be a duration'],
    [['mail['], 'A pattern must be a glob with a ] for each [, and [[] for a [ itself, found "mail["'],
    [['--lease', '5'], 'A lease must be a duration'],
    [['--count', '0'], '--count must be a whole number from 1'],
    [['--min-priority', 'high'], 'A priority must be a whole number such as 500, found "high"'],
    [['--holding', 'x'], 'A job\'s number must be a whole number above 0, found "x"'],
    [['--job', 'x'], 'A job\'s number must be a whole number above 0, found "x"'],
    [['--job', '1', 'mail/*'], 'takes no names'],
    [['--job', '1', '--wait', '1s'], '--job and --wait cannot be combined'],
  ])('%j is wrong use', async (args, message) => {
    const { status, stdout, stderr } = await inRoot(makeQueueSite(), 'claim', ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});
