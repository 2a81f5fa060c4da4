import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, runCommand, runner, startCommand } from '../../support/command.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** Fails until the file `works` is there. */
const failing = (tags: readonly string[]) =>
  `${tags.map((tag) => `# ${tag}\n`).join('')}echo "try $RUNNER_ATTEMPT"; [ -e works ]\n`;

const runs = 'select script, attempt, outcome from runs order by id';
const jobs = 'select name, state, attempts from jobs order by id';

/** As if the time of each next try had come. */
function letRetriesComeDue(root: string): void {
  changeLog(root, `update jobs set run_at = 0 where state = 'retrying'`);
}

test('a failed script is tried again by the next pass of any tier, when that is due', () => {
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': failing(['@retries 2', '@retry-delay 1h']),
    'jobs/15min/b.sh': 'exit 0\n',
  });
  // Cron is told of what is not tried again.
  expect(runner(root, 'daily')).toMatchObject({ status: 1, stderr: '' });
  expect(runner(root, '15min').status).toBe(0);
  expect(queryLog(root, jobs)[0]).toMatchObject({ state: 'retrying', attempts: 1 });
  letRetriesComeDue(root);
  expect(runner(root, '15min').status).toBe(1);
  writeFileSync(join(root, 'works'), '');
  letRetriesComeDue(root);
  expect(runner(root, '15min').status).toBe(0);
  expect(queryLog(root, `${runs.replace('order', "where tier = 'daily' order")}`)).toEqual([
    { script: 'daily/a', attempt: 1, outcome: 'failed' },
    { script: 'daily/a', attempt: 2, outcome: 'failed' },
    { script: 'daily/a', attempt: 3, outcome: 'succeeded' },
  ]);
  expect(queryLog(root, `select state, attempts from jobs where name = 'daily/a'`)).toEqual([
    { state: 'finished', attempts: 3 },
  ]);
  expect(queryLog(root, `select kind, tier, state from workers where kind != 'tier'`)).toEqual([
    { kind: 'backlog', tier: 'daily', state: 'finished' },
    { kind: 'backlog', tier: 'daily', state: 'finished' },
  ]);
});

test('a job that waits for its next try stands for the script: a pass adds no second one', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': failing(['@retries 1', '@retry-delay 1h']),
    'jobs/hourly/b.sh': 'exit 0\n',
  });
  runner(root, 'hourly');
  expect(runner(root, 'hourly').status).toBe(0);
  expect(queryLog(root, runs)).toEqual([
    { script: 'hourly/a', attempt: 1, outcome: 'failed' },
    { script: 'hourly/b', attempt: 1, outcome: 'succeeded' },
    { script: 'hourly/b', attempt: 1, outcome: 'succeeded' },
  ]);
  letRetriesComeDue(root);
  expect(runner(root, 'hourly').status).toBe(1);
  expect(queryLog(root, jobs)[0]).toMatchObject({ state: 'failed', attempts: 2 });
  expect(runner(root, 'hourly').status).toBe(1);
  const open = 'select name, state, attempts from jobs where finished_at is null';
  expect(queryLog(root, open)).toEqual([{ name: 'hourly/a', state: 'retrying', attempts: 1 }]);
});

test('a next try that waits for its time begins no pass', () => {
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': failing(['@retries 1', '@retry-delay 1h']),
    'jobs/15min/b.sh': 'exit 0\n',
  });
  const backlog = `select tier from workers where kind = 'backlog'`;
  runner(root, 'daily');
  expect(runner(root, '15min').status).toBe(0);
  expect(queryLog(root, backlog)).toEqual([]);
  // As if it had been set while the clock was ahead.
  changeLog(
    root,
    `update jobs set run_at = run_at + 86400000, started_at = started_at + 86400000
     where state = 'retrying'`,
  );
  expect(runner(root, '15min').status).toBe(1);
  expect(queryLog(root, backlog)).toEqual([{ tier: 'daily' }]);
});

test('a next try that comes due while the pass goes on is made by that pass', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': failing(['@retries 1', '@retry-delay 10ms']),
    'jobs/hourly/b.sh': 'sleep 0.3; touch works\n',
  });
  expect(runner(root, 'hourly').status).toBe(1);
  expect(queryLog(root, runs)).toEqual([
    { script: 'hourly/a', attempt: 1, outcome: 'failed' },
    { script: 'hourly/b', attempt: 1, outcome: 'succeeded' },
    { script: 'hourly/a', attempt: 2, outcome: 'succeeded' },
  ]);
});

test('by hand a script is tried at once, and that counts as its next try', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': failing(['@retries 1', '@retry-delay 1h']) });
  runner(root, 'hourly');
  expect(runner(root, 'run', 'hourly/a').status).toBe(1);
  expect(queryLog(root, jobs)).toEqual([{ name: 'hourly/a', state: 'failed', attempts: 2 }]);
});

test('a refused script is not tried again', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '# @retries 5\n# @timeout soon\nexit 0\n' });
  runner(root, 'hourly');
  expect(queryLog(root, 'select state from jobs')).toEqual([{ state: 'failed' }]);
});

test('what waits for a script that is gone is cancelled', () => {
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': failing(['@retries 1', '@retry-delay 1h']),
    'jobs/hourly/b.sh': 'exit 0\n',
  });
  runner(root, 'daily');
  letRetriesComeDue(root);
  writeFileSync(join(root, 'jobs/daily/a.sh.bak'), '');
  runCommand(['list', '--root', root], cronPlace(root));
  const { unlinkSync } = process.getBuiltinModule('node:fs');
  unlinkSync(join(root, 'jobs/daily/a.sh'));
  expect(runner(root, 'hourly').status).toBe(0);
  expect(queryLog(root, `select state, reason from jobs where name = 'daily/a'`)).toEqual([
    { state: 'cancelled', reason: 'its script no longer exists' },
  ]);
});

test('what a living pass has queued is left to it', async () => {
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': 'touch started; while ! [ -e go ]; do sleep 0.02; done\n',
    'jobs/daily/b.sh': 'exit 0\n',
    'jobs/hourly/c.sh': 'exit 0\n',
  });
  const daily = startCommand(['daily', '--root', root], cronPlace(root));
  await until('the first script runs', () => existsSync(join(root, 'started')));
  await until('it is recorded, a moment later', () => queryLog(root, runs).length === 1);
  expect(runner(root, 'hourly').status).toBe(0);
  expect(queryLog(root, runs)).toEqual([
    { script: 'daily/a', attempt: 1, outcome: 'running' },
    { script: 'hourly/c', attempt: 1, outcome: 'succeeded' },
  ]);
  expect(queryLog(root, `select kind, tier, state from workers where state = 'skipped'`)).toEqual([]);
  writeFileSync(join(root, 'go'), '');
  expect((await daily.ended).status).toBe(0);
});
