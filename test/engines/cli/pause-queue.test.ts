import { userInfo } from 'node:os';
import { describe, expect, test } from 'vitest';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';

const pausesOf = (root: string) =>
  queryLog<{ name: string; kind: string }>(root, 'select name, kind from pauses order by name');

describe('a pause of jobs of the queue', () => {
  test('lets them wait, and others go on', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'mail/welcome');
    expect(await inRoot(root, 'pause', 'mail/*')).toEqual({
      status: 0,
      stdout: "mail/* is paused until `npx folder-runner resume 'mail/*'`.\n",
      stderr: '',
    });
    expect(await inRoot(root, 'claim')).toMatchObject({ status: 1 });
    await inRoot(root, 'add', 'export');
    expect(jsonOf(await inRoot(root, 'claim'))).toMatchObject({ name: 'export' });
    expect((await inRoot(root, 'resume', 'mail/*')).stdout).toBe('Resumed: mail/*.\n');
    expect(jsonOf(await inRoot(root, 'claim'))).toMatchObject({ name: 'mail/welcome' });
  });

  test.each([
    ['queue', 'the queue', 'queue'],
    ['*', 'the queue', 'queue'],
    ['export', 'export', 'queue/export'],
    ['queue/export', 'export', 'queue/export'],
    ['e*', 'e*', 'queue/e*'],
  ])('%s is told of as %s', async (word, words, name) => {
    const root = makeQueueSite();
    expect((await inRoot(root, 'pause', word)).stdout).toMatch(
      new RegExp(`^${words.replace('*', '\\*')} is paused until `, 'i'),
    );
    expect(pausesOf(root)).toEqual([{ name, kind: 'pause' }]);
    await inRoot(root, 'add', 'export');
    expect(await inRoot(root, 'claim')).toMatchObject({ status: 1 });
    expect((await inRoot(root, 'resume', word)).stdout).toBe(`Resumed: ${words}.\n`);
    expect(pausesOf(root)).toEqual([]);
  });

  test('is told of as JSON, too, and so is its end', async () => {
    const root = makeQueueSite();
    const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    const pause = jsonOf(await inRoot(root, 'pause', 'mail/*', '--for', '2h', '--json'));
    expect(pause).toEqual({
      name: 'queue/mail/*',
      kind: 'pause',
      until: instant,
      since: instant,
      by: userInfo().username,
    });
    expect(jsonOf(await inRoot(root, 'status', '--json'))).toMatchObject({ pauses: [pause] });
    const narrower = jsonOf(await inRoot(root, 'resume', 'mail/welcome', '--json'));
    expect(narrower).toEqual({ resumed: [], pause });
    expect(jsonOf(await inRoot(root, 'resume', '--json'))).toEqual({ resumed: ['queue/mail/*'], pause: null });
  });

  test('takes several names: all of them, or none if one is wrong', async () => {
    const root = makeQueueSite();
    const names = ['hourly', 'mail/*', 'export'];
    expect(await inRoot(root, 'pause', ...names, 'exprt')).toMatchObject({ status: 2, stdout: '' });
    expect(await inRoot(root, 'pause', ...names, '--fail')).toMatchObject({ status: 2, stdout: '' });
    expect(await inRoot(root, 'status', '--json').then(jsonOf)).toMatchObject({ pauses: [] });
    expect((await inRoot(root, 'pause', ...names)).stdout).toBe(
      'hourly is paused until `npx folder-runner resume hourly`.\n' +
        "mail/* is paused until `npx folder-runner resume 'mail/*'`.\n" +
        'export is paused until `npx folder-runner resume export`.\n',
    );
    const told = jsonOf(await inRoot(root, 'pause', 'mail/*', 'export', '--for', '1h', '--json'));
    expect(told).toMatchObject({ pauses: [{ name: 'queue/mail/*' }, { name: 'queue/export' }] });
    expect(await inRoot(root, 'resume', 'hourly', 'nothing')).toMatchObject({ status: 2, stdout: '' });
    expect((await inRoot(root, 'resume', 'hourly', 'hourly/clean', 'export')).stdout).toBe(
      'Resumed: hourly, export.\nhourly/clean was not paused.\n',
    );
    const rest = jsonOf(await inRoot(root, 'resume', 'export', 'mail/welcome', '--json'));
    expect(rest).toMatchObject({ resumed: [], pauses: [{ name: 'queue/mail/*' }] });
  });

  test('everything is the queue, too', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export');
    await inRoot(root, 'pause');
    expect(await inRoot(root, 'claim')).toMatchObject({ status: 1 });
    expect((await inRoot(root, 'resume', '*')).stdout).toBe(
      `The queue was not paused.\nBut everything is paused by ${userInfo().username}: \`npx folder-runner resume\` ends that.\n`,
    );
  });

  test('with --fail lets what is due fail', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'mail/welcome');
    expect((await inRoot(root, 'pause', 'mail/*', '--fail')).stdout).toBe(
      "mail/* fails when it is due, until `npx folder-runner resume 'mail/*'`.\n",
    );
    expect(pausesOf(root)).toEqual([{ name: 'queue/mail/*', kind: 'fail-fast' }]);
    expect(await inRoot(root, 'claim')).toMatchObject({ status: 1 });
    expect(jsonOf(await inRoot(root, 'job', '1', '--json'))).toMatchObject({ state: 'failed' });
    expect((await inRoot(root, 'status')).stdout).toContain('mail/* · fails when it is due · until resumed · ');
    await inRoot(root, 'pause', 'mail/*');
    expect(pausesOf(root)).toEqual([{ name: 'queue/mail/*', kind: 'pause' }]);
  });

  test('jobs whose handlers are elsewhere can be paused while they wait', async () => {
    const root = makeQueueSite();
    expect(await inRoot(root, 'pause', 'import')).toMatchObject({ status: 2, stdout: '' });
    await inRoot(root, 'add', 'import');
    expect((await inRoot(root, 'pause', 'import')).stdout).toContain('import is paused until ');
    await inRoot(root, 'job', '1', 'delete');
    expect((await inRoot(root, 'resume', 'import')).stdout).toBe('Resumed: import.\n');
  });

  test.each([
    [['--fail'], '--fail needs names of jobs of the queue'],
    [['hourly/*'], 'Patterns are for queue jobs: `npx folder-runner pause hourly`'],
    [['mail/welcom'], 'did you mean mail/welcome?'],
    [['queue/mail/[a-m', '--fail'], 'A pattern must be a glob with a ] for each ['],
    [['queue/'], 'A pattern must be a name or a glob over names such as mail/*'],
  ])('%j is wrong use', async (args, message) => {
    const { status, stdout, stderr } = await inRoot(makeQueueSite(), 'pause', ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});

describe('npx folder-runner status', () => {
  test('counts the queue, and names jobs that nothing here is for', async () => {
    const root = makeQueueSite();
    for (const name of ['mail/welcome', 'mail/welcom', 'mail/welcom', 'nobody']) {
      await inRoot(root, 'add', name);
    }
    await inRoot(root, 'add', 'export', '--at', '+1h');
    expect((await inRoot(root, 'status')).stdout).toMatch(
      /^Everything is well\n\nNothing is running\.\n\nqueue\n {2}4 ready · 1 delayed · no worker\n {2}mail\/welcom: 2 jobs without a handler here; did you mean mail\/welcome\?\n {2}nobody: 1 job without a handler here\n\n/,
    );
    await inRoot(root, 'claim', 'mail/welcome');
    await inRoot(root, 'add', 'nobody', '--parent', '1');
    await inRoot(root, 'job', '5', 'bury');
    const { queue } = jsonOf(await inRoot(root, 'status', '--json'));
    expect(queue).toEqual({
      ready: 3,
      delayed: 0,
      running: 1,
      paused: 1,
      failed: 1,
      workers: 0,
      idleWorkers: 0,
      waiting: [],
      withoutHandler: [
        { name: 'mail/welcom', jobs: 2, nearest: 'mail/welcome' },
        { name: 'nobody', jobs: 1, nearest: null },
      ],
      pace: null,
    });
    expect((await inRoot(root, 'status')).stdout).toMatch(/^.+\n\nNothing is running except externally claimed jobs/);
  });

  test('tells nothing of a queue that nobody uses', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'hourly');
    expect((await inRoot(root, 'status')).stdout).not.toContain('queue');
  });
});
