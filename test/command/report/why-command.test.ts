import { unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { whyRecord } from '../../../src/report/why/explain.ts';
import type { JsonOf } from '../../../src/system/base/record.ts';
import { inRoot } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { running, writeLog } from '../../support/written-log.ts';

type Why = JsonOf<typeof whyRecord>;

const HOUR = 3_600_000;
const says = executable('#!/bin/sh\necho said\n');
const site = () =>
  makeTemporaryRoot({
    'jobs/hourly/a.sh': says,
    'jobs/hourly/fails.sh': executable('#!/bin/sh\n# @retries 3\n# @retry-delay 10m\nexit 3\n'),
    'jobs/hourly/wrong.sh': executable('#!/bin/sh\n# @timeout 10 parsecs\n'),
    'jobs/by-hand/c.sh': says,
    'jobs/houry/d.sh': says,
    'jobs/hourly/notes.txt': '',
  });

async function why(root: string, word: string): Promise<Why> {
  const { status, stdout, stderr } = await inRoot(root, 'why', word, '--json');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return JSON.parse(stdout);
}

function finding({ findings }: Why, topic: string) {
  return findings.find((each) => each.topic === topic);
}

describe('before anything has run', () => {
  test('a script does not run as nobody calls its tier', async () => {
    const found = await why(site(), 'a');
    expect(found.script).toBe('hourly/a');
    expect(found.findings.map(({ topic, verdict }) => `${topic} ${verdict}`)).toEqual([
      'found fine',
      'options fine',
      'tier fine',
      'called wrong',
      'last pass notable',
      'lock fine',
      'paused fine',
      'last run notable',
      'last success fine',
    ]);
    expect(finding(found, 'called')?.cure).toContain('`npx folder-runner cron --install`');
    expect(found.conclusion).toBe(
      'It does not run by itself because cron has never called hourly: run `npx folder-runner cron --install`.',
    );
  });

  test('a tier without a period is run by hand', async () => {
    const found = await why(site(), 'c');
    expect(finding(found, 'tier')).toMatchObject({ verdict: 'notable' });
    expect(found.conclusion).toBe('It runs only when you call `npx folder-runner by-hand`.');
  });

  test('a tier that is nearly named after a period says which one may be meant', async () => {
    expect(finding(await why(site(), 'd'), 'tier')).toMatchObject({
      text: 'houry is not a schedule name, so cron never runs it',
      cure: 'Did you mean hourly? `npx folder-runner houry` runs it by hand.',
    });
  });

  test('a refused script says what is to be put right, with its line', async () => {
    const found = await why(site(), 'wrong');
    expect(finding(found, 'refused')?.text).toContain('jobs/hourly/wrong.sh:2: @timeout must be');
    expect(found.conclusion).toContain('it is refused until');
  });

  test('what is no script says why', async () => {
    const found = await why(site(), 'jobs/hourly/notes.txt');
    expect(found).toMatchObject({ script: null, conclusion: expect.stringContaining('not a script') });
    expect(finding(found, 'ignored')).toMatchObject({ verdict: 'wrong', text: 'text' });
  });

  test('what is not there has a nearest name', async () => {
    expect(finding(await why(site(), 'hourly/fials'), 'found')?.cure).toBe('Did you mean hourly/fails?');
  });

  test('wrong settings are the first thing to be said', async () => {
    const root = site();
    writeFileSync(join(root, 'runner.config.json'), '{"concurrency": "many"}');
    const found = await why(root, 'a');
    expect(found.findings[0]).toMatchObject({ topic: 'settings', verdict: 'wrong' });
    expect(found.findings[0]?.text).toContain('runner.config.json:1: concurrency must be');
    expect(found.conclusion).toContain('until the settings are fixed');
  });

  test('a tier is no script: wrong use', async () => {
    const { status, stdout, stderr } = await inRoot(site(), 'why', 'hourly');
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain('"hourly" is a tier');
  });
});

describe('by the log', () => {
  test('a script that ran is run by the next pass', async () => {
    const root = site();
    await inRoot(root, 'hourly');
    const found = await why(root, 'a');
    expect(finding(found, 'last run')?.text).toMatch(/^run \d+ of .* succeeded/);
    expect(found.conclusion).toMatch(/^It will run with the next pass of hourly, about \d+ [A-Z][a-z]{2} \d\d:\d\d\.$/);
    expect(found.findings.every(({ verdict }) => verdict === 'fine')).toBe(true);
  });

  test('a script that failed says how, and when it is tried again', async () => {
    const root = site();
    await inRoot(root, 'hourly');
    const found = await why(root, 'fails');
    expect(finding(found, 'job')?.text).toMatch(/^try 2 of 4 is due .*: exit code 3$/);
    expect(finding(found, 'last run')?.cure).toMatch(/^`npx folder-runner show \d+` shows more\.$/);
    expect(found.conclusion).toMatch(/^It will be retried by the first call of any tier after /);
  });

  test('cron that has stopped calling is the reason', async () => {
    const root = site();
    const log = await writeLog(root);
    await log.addPass('hourly', Date.now() - 3 * HOUR);
    const found = await why(root, 'a');
    expect(finding(found, 'called')).toMatchObject({
      verdict: 'wrong',
      cure: '`npx folder-runner doctor` checks the crontab.',
    });
    expect(found.conclusion).toMatch(/^It did not run because cron has not called hourly since /);
  });

  test('a file that is newer than the last pass is told of', async () => {
    const root = site();
    const log = await writeLog(root);
    await log.addPass('hourly', Date.now() - HOUR / 2);
    // Its content is older than the pass; that it came here after it is what counts.
    const old = new Date(Date.now() - 100 * HOUR);
    utimesSync(join(root, 'jobs/hourly/a.sh'), old, old);
    expect(finding(await why(root, 'a'), 'last pass')?.text).toMatch(/before its file was changed or added/);
  });

  test('a pass that is at work, longer than its period, is named with the cure', async () => {
    const root = site();
    const log = await writeLog(root);
    const at = Date.now() - 2 * HOUR;
    const pass = await log.addPass('hourly', at, { state: 'running', pid: process.pid });
    await log.addRun('hourly/fails', at, { ...running, worker_id: pass, pid: process.pid });
    await log.addPass('hourly', Date.now() - HOUR, { state: 'skipped', reason: 'held' });
    const found = await why(root, 'a');
    expect(finding(found, 'lock')?.text).toContain(`held by pid ${process.pid} on `);
    expect(finding(found, 'lock')?.cure).toContain(`kill ${process.pid}`);
    expect(found.conclusion).toContain('if the one that runs now is over by then');
    expect((await why(root, 'fails')).conclusion).toBe('It is running now.');
  });

  test('what was cancelled before it ran says so', async () => {
    const root = site();
    const log = await writeLog(root);
    const at = Date.now();
    const [id] = await log.store.scriptJobs.enqueue([{ name: 'hourly/a', tier: 'hourly', scheduledFor: null, at }]);
    const set = { state: 'cancelled', finished_at: at, reason: 'stopped by SIGTERM' } as const;
    await log.store.jobs.change([{ id: id as number, set }], at);
    expect(finding(await why(root, 'a'), 'last job')?.text).toContain('was cancelled before it ran: stopped');
  });

  test('what is gone from jobs/ is known from the log', async () => {
    const root = site();
    await inRoot(root, 'hourly');
    unlinkSync(join(root, 'jobs/hourly/a.sh'));
    const found = await why(root, 'a');
    expect(found).toMatchObject({ script: 'hourly/a' });
    expect(found.conclusion).toContain('its file is gone');
    expect(finding(found, 'last run')).toBeDefined();
  });
});

test('what the log would tell is not made up where it cannot be read', async () => {
  const root = site();
  const { state } = await writeLog(root);
  writeFileSync(state.database, 'no database at all, whatever SQLite makes of it'.repeat(100));
  const { status, stdout, stderr } = await inRoot(root, 'why', 'a', '--json');
  expect(status).toBe(0);
  expect(stderr).toMatch(/^Note: the activity log could not be read\. /);
  const found: Why = JSON.parse(stdout);
  expect(found.findings.map(({ topic }) => topic)).toEqual(['found', 'options', 'log']);
  expect(found.conclusion).toContain('More is not known.');
});

test('the answer fits its terminal, and shows nothing raw', async () => {
  const root = site();
  writeFileSync(join(root, 'jobs/hourly/x\x1b[2J.txt'), '');
  const hostile = (await inRoot(root, 'why', 'x\x1b[2J.txt')).stdout;
  expect(hostile).toContain('✖ ignored');
  expect(hostile).not.toContain('\x1b');
  await inRoot(root, 'hourly');
  for (const line of (await inRoot(root, 'why', 'fails')).stdout.split('\n')) {
    expect(line.length).toBeLessThanOrEqual(110);
  }
});
