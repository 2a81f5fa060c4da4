import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { inRoot } from '../../support/command.ts';
import { runWithFault } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

/** Whoever runs the tests. */
const me = userInfo().username;

const says = executable('#!/bin/sh\necho said\n');
const site = () => makeTemporaryRoot({ 'jobs/hourly/a.sh': says, 'jobs/daily/b.sh': says });

interface PauseRow {
  readonly name: string;
  readonly until: number | null;
}
const pausesOf = (root: string) => queryLog<PauseRow>(root, 'select name, until from pauses order by name');
const runsOf = (root: string) =>
  queryLog<{ script: string }>(root, 'select script from runs order by id').map((run) => run.script);

describe('runner pause', () => {
  test('keeps a tier from running until it is resumed', async () => {
    const root = site();
    expect(await inRoot(root, 'pause', 'hourly')).toEqual({
      status: 0,
      stdout: 'hourly is paused until `npx folder-runner resume hourly`.\n',
      stderr: '',
    });
    expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0, stdout: '', stderr: '' });
    expect(await inRoot(root, 'daily')).toMatchObject({ status: 0 });
    expect(runsOf(root)).toEqual(['daily/b']);
    expect((await inRoot(root, 'resume', 'hourly')).stdout).toBe('Resumed: hourly.\n');
    expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0 });
    expect(runsOf(root)).toEqual(['daily/b', 'hourly/a']);
  });

  test('takes everything, one script by its short name, and a time', async () => {
    const root = site();
    expect((await inRoot(root, 'pause')).stdout).toBe('Everything is paused until `npx folder-runner resume`.\n');
    const before = Date.now();
    expect((await inRoot(root, 'pause', 'a', '--for', '3w')).stdout).toMatch(
      /^hourly\/a is paused until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(UTC\)\.\n`npx folder-runner resume hourly\/a` ends it sooner\.\n$/,
    );
    const [everything, script] = pausesOf(root);
    expect(everything).toEqual({ name: '*', until: null });
    expect(script?.name).toBe('hourly/a');
    const threeWeeks = 21 * 24 * 3_600_000;
    expect(script?.until).toBeGreaterThanOrEqual(before + threeWeeks);
    expect(script?.until).toBeLessThanOrEqual(Date.now() + threeWeeks);
  });

  test('works with wrong settings, too: somebody may be about to mend them', async () => {
    const root = site();
    writeFileSync(join(root, 'runner.config.json'), '{"concurrency": "many"}');
    expect(await inRoot(root, 'pause', 'hourly')).toMatchObject({ status: 0, stderr: '' });
    expect((await inRoot(root, 'resume', 'hourly')).stdout).toBe('Resumed: hourly.\n');
  });

  test('a pause that is over keeps nothing from running, and is shown nowhere', async () => {
    const root = site();
    await inRoot(root, 'pause', 'hourly', '--for', '1ms');
    await inRoot(root, 'hourly');
    expect(runsOf(root)).toEqual(['hourly/a']);
    expect((await inRoot(root, 'status')).stdout).not.toContain('paused');
    expect((await inRoot(root, 'resume')).stdout).toBe('Nothing was paused.\n');
  });

  test.each([
    [['hourly/b'], 'did you mean hourly/a?'],
    [['hourly', '--for', 'soon'], '--for must be a duration such as 30m, 2h or 7d, found "soon"'],
    [['hourly', '--for', '900000000000w'], '--for must be a duration of at most 100000d'],
  ])('%j is wrong use, and makes nothing', async (args, message) => {
    const root = site();
    const { status, stdout, stderr } = await inRoot(root, 'pause', ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(existsSync(join(root, '.runner'))).toBe(false);
  });
});

describe('a pause is shown by', () => {
  const paused = async () => {
    const root = site();
    await inRoot(root, 'hourly');
    await inRoot(root, 'pause', 'daily', '--for', '2h');
    await inRoot(root, 'pause', 'hourly/a');
    return root;
  };

  test('status, why, list and report', async () => {
    const root = await paused();
    const shown = async (...args: string[]) => (await inRoot(root, ...args)).stdout;
    expect(await shown('status')).toMatch(/\npaused\n {2}daily · until .*\n {2}hourly\/a · until resumed · /);
    expect(await shown('why', 'b')).toMatch(
      /✖ paused +daily is paused by \S+ until .*\n +→ `npx folder-runner resume daily`/,
    );
    expect(await shown('why', 'a')).toContain('paused: `npx folder-runner resume hourly/a` ends the pause.');
    expect(await shown('list')).toMatch(/daily · every day\n {2}paused by \S+ until /);
    expect(await shown('list')).toContain(`a.sh\n    paused by ${me}\n`);
    expect(await shown('report')).toMatch(
      /\n {2}paused by \S+ until \d+ [A-Z][a-z]{2} \d\d:\d\d · `npx folder-runner resume daily`/,
    );
    expect(await shown('report')).toContain(`\n    paused by ${me}\n`);
    const { tiers } = JSON.parse(await shown('report', '--json'));
    expect(tiers).toMatchObject([{ pause: null }, { pause: { name: 'daily' } }]);
  });

  test('report also before anything has run', async () => {
    const root = site();
    await inRoot(root, 'pause', 'daily');
    expect((await inRoot(root, 'report')).stdout).toContain(
      `\ndaily is paused by ${me} · \`npx folder-runner resume daily\` ends it\n`,
    );
  });

  test('run, which runs the script all the same', async () => {
    const root = await paused();
    const { status, stderr } = await inRoot(root, 'run', 'hourly/a');
    expect(status).toBe(0);
    expect(stderr).toContain(`Note: hourly/a is paused by ${me}; hourly/a runs all the same`);
    expect(runsOf(root)).toEqual(['hourly/a', 'hourly/a']);
  });

  test('list also where nothing has run, without making anything', async () => {
    const root = site();
    expect(await inRoot(root, 'list')).toMatchObject({ status: 0, stderr: '' });
    expect(existsSync(join(root, '.runner'))).toBe(false);
  });
});

describe('npx folder-runner resume', () => {
  test('ends all pauses, and names them', async () => {
    const root = site();
    await inRoot(root, 'pause');
    await inRoot(root, 'pause', 'daily');
    expect((await inRoot(root, 'resume')).stdout).toBe('Resumed: everything, daily.\n');
    expect(pausesOf(root)).toEqual([]);
  });

  test('tells of a wider pause that stays', async () => {
    const root = site();
    await inRoot(root, 'pause');
    await inRoot(root, 'pause', 'hourly/a');
    expect((await inRoot(root, 'resume', 'hourly/a')).stdout).toBe(
      `Resumed: hourly/a.\nBut everything is paused by ${me}: \`npx folder-runner resume\` ends that.\n`,
    );
    expect((await inRoot(root, 'resume', 'daily')).stdout).toContain('daily was not paused.\n');
  });

  test('takes the name of what is gone from jobs/, and no name that is nothing', async () => {
    const root = site();
    await inRoot(root, 'pause', 'daily');
    rmSync(join(root, 'jobs/daily'), { recursive: true });
    expect(await inRoot(root, 'resume', 'dayly')).toMatchObject({ status: 2, stdout: '' });
    expect(pausesOf(root)).toHaveLength(1);
    expect((await inRoot(root, 'resume', 'daily')).stdout).toBe('Resumed: daily.\n');
    expect(pausesOf(root)).toEqual([]);
  });

  test('where nothing has ever run has nothing to end, and makes nothing', async () => {
    const root = site();
    expect(await inRoot(root, 'resume')).toMatchObject({ status: 0, stdout: 'Nothing was paused.\n' });
    expect(existsSync(join(root, '.runner'))).toBe(false);
  });
});

test('a log that stays locked is named by both, with what to do', async () => {
  const root = site();
  await inRoot(root, 'pause');
  const path = join(root, '.runner/activity.db');
  const other = new Database(path);
  onTestFinished(() => void other.close());
  other.exec('begin exclusive');
  // Side by side: each waits for a tenth of a quarter of a minute.
  const ends = ['pause', 'resume'].map((command) => runWithFault(root, [command], { pace: 10 }));
  const stderr =
    `runner: ${path} stays locked by another program (database is locked). ` +
    `If that lasts, end the program: \`fuser -v ${path}\` names it.\n`;
  for (const end of ends) expect(await end).toEqual({ status: 1, stdout: '', stderr });
});
