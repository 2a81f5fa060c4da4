import { expect, test } from 'vitest';
import { inRoot } from '../support/in-root.ts';
import { jsonOf, makeQueueSite } from '../support/queue-site.ts';

/** Two handlers, of which one has finished a job. */
function workOne(): string {
  const root = makeQueueSite();
  inRoot(root, 'add', 'mail/welcome');
  inRoot(root, 'claim');
  inRoot(root, 'job', '1', 'finish');
  return root;
}

test('runs of handlers are reported as those of scripts, below the tiers', () => {
  const { stdout } = inRoot(workOne(), 'report');
  expect(stdout).toMatch(
    /\nhourly · every hour · never called\n(?:.*\n)+\nqueue · handlers of queued jobs\n/,
  );
  expect(stdout).toMatch(/\n {2}export +– +never run/);
  expect(stdout).toMatch(/\n {2}mail\/welcome +\d\d-\d\d \d\d:\d\d +succeeded +1 /);
});

test('one handler is found by the name of its jobs', () => {
  const root = workOne();
  expect(jsonOf(inRoot(root, 'report', 'mail/welcome', '--json'))).toMatchObject({
    script: 'queue/mail/welcome',
    runs: [{ id: 1, outcome: 'succeeded', tier: 'queue' }],
  });
  expect(inRoot(root, 'tail', 'mail/welcome').stderr).toContain('run 1 of queue/mail/welcome');
});

test('without handlers, and without runs of any, there is no queue in the report', () => {
  const root = makeQueueSite();
  expect(inRoot(root, 'report').stdout).toContain('`runner hourly` runs that tier now');
  expect(inRoot(root, 'report', '--tier', 'hourly').stdout).not.toContain('queue');
});
