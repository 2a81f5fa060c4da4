import { expect, test } from 'vitest';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';

/** Two handlers, of which one has finished a job. */
async function workOne(): Promise<string> {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'mail/welcome');
  await inRoot(root, 'claim');
  await inRoot(root, 'job', '1', 'finish');
  return root;
}

test('runs of handlers are reported as those of scripts, below the tiers', async () => {
  const { stdout } = await inRoot(await workOne(), 'report');
  expect(stdout).toMatch(/\nhourly · every hour · never called\n(?:.*\n)+\nqueue · handlers of queued jobs\n/);
  expect(stdout).toMatch(/\n {2}export +– +never run/);
  expect(stdout).toMatch(/\n {2}mail\/welcome +\d+ [A-Z][a-z]+ \d\d:\d\d +succeeded +1 /);
});

test('one handler is found by the name of its jobs', async () => {
  const root = await workOne();
  expect(jsonOf(await inRoot(root, 'report', 'mail/welcome', '--json'))).toMatchObject({
    script: 'queue/mail/welcome',
    runs: [{ id: 1, outcome: 'succeeded', tier: 'queue' }],
  });
  expect((await inRoot(root, 'tail', 'mail/welcome')).stderr).toContain('run 1 of queue/mail/welcome');
});

/** A job of which one run was given back, and another one finished. */
async function workTwice(): Promise<string> {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'export');
  for (const verb of ['retry', 'finish']) {
    await inRoot(root, 'claim');
    await inRoot(root, 'job', '1', verb);
  }
  return root;
}

test('what was given back is counted by itself, and only where there is any', async () => {
  const root = await workTwice();
  const { stdout } = await inRoot(root, 'report');
  expect(stdout).toMatch(/\n {2}script +last run +outcome +runs +released +success /);
  expect(stdout).toMatch(/\n {2}export +\d+ \S+ \S+ +succeeded +2 +1 +100% /);
  expect(stdout).toContain('· 0 failed · 1 released · 100% succeeded ·');
  expect((await inRoot(await workOne(), 'report')).stdout).not.toContain('released');
});

test('what was given back is chosen by its outcome, and has a reason, but is no error', async () => {
  const root = await workTwice();
  const { runs } = jsonOf(await inRoot(root, 'report', 'export', '--outcome', 'released', '--json'));
  expect(runs).toMatchObject([{ id: 1, outcome: 'released', reason: 'it was given back' }]);
  expect((await inRoot(root, 'report', 'export')).stdout).toMatch(/ released .* it was given back\n/);
  await inRoot(root, 'add', 'export');
  await inRoot(root, 'claim');
  await inRoot(root, 'job', '2', 'retry');
  const { scripts, totals } = jsonOf(await inRoot(root, 'report', '--json'));
  const own = { runs: 3, succeeded: 1, failed: 0, released: 2, successRate: 1 };
  expect(totals).toMatchObject(own);
  expect(scripts).toContainEqual(expect.objectContaining({ ...own, script: 'queue/export', lastError: null }));
});

test('without handlers, and without runs of any, there is no queue in the report', async () => {
  const root = makeQueueSite();
  expect((await inRoot(root, 'report')).stdout).toContain('`npx folder-runner hourly` runs that tier now');
  expect((await inRoot(root, 'report', '--tier', 'hourly')).stdout).not.toContain('queue');
});
