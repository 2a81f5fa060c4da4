import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, runCommand, startCommand } from '../../support/command.ts';
import { endOrphans } from '../../support/faults/faults.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import type { FileContent } from '../../support/root.ts';
import { makeSeenRoot } from '../../support/site.ts';
import { until } from '../../support/until.ts';

const due = (root: string, ...args: readonly string[]) => runCommand(['due', '--root', root, ...args], cronPlace(root));
const silent = { status: 0, stdout: '', stderr: '' };

/** A script that says what it was told. */
const tells = 'echo "late by $RUNNER_LATENESS_MS, for $RUNNER_SCHEDULED_FOR"\n';

const makeRoot = (files: Readonly<Record<string, FileContent>>) =>
  makeSeenRoot({ 'jobs/hourly/a.sh': tells, 'jobs/daily/a.sh': tells, ...files });

const scripts = (root: string): string[] =>
  queryLog<{ script: string }>(root, 'select script from runs order by id').map(({ script }) => script);

/** As if all that is in the log had happened so much earlier. */
function age(root: string, ms: number): void {
  for (const [table, columns] of Object.entries({
    workers: ['started_at', 'finished_at', 'scheduled_for'],
    jobs: ['created_at', 'run_at', 'finished_at', 'scheduled_for'],
    runs: ['started_at', 'finished_at', 'scheduled_for'],
  })) {
    const earlier = columns.map((name) => `${name} = ${name} - ${ms}`);
    changeLog(root, `update ${table} set ${earlier.join(', ')}`);
  }
}

const HOUR = 3_600_000;

test('each tier that is due is run once, however many periods were missed; then none is', async () => {
  const root = await makeRoot({ 'jobs/by-hand/a.sh': tells });
  expect(due(root)).toEqual(silent);
  expect(scripts(root)).toEqual(['hourly/a', 'daily/a']);
  expect(due(root)).toEqual(silent);
  expect(scripts(root)).toHaveLength(2);
  age(root, 100 * HOUR);
  expect(due(root)).toEqual(silent);
  expect(scripts(root)).toEqual(['hourly/a', 'daily/a', 'hourly/a', 'daily/a']);
});

test('a script is told for when it runs, and how late that is', async () => {
  const root = await makeRoot({});
  due(root);
  const [run] = queryLog<{ output: string; scheduled_for: number; started_at: number }>(
    root,
    `select output, jobs.scheduled_for, runs.started_at from runs join jobs on jobs.id = job_id where script = 'daily/a'`,
  );
  const { output, scheduled_for, started_at } = run as NonNullable<typeof run>;
  const late = started_at - scheduled_for;
  expect(output).toBe(`late by ${late}, for ${new Date(scheduled_for).toISOString()}\n`);
  expect(late).toBeGreaterThanOrEqual(0);
  expect(late).toBeLessThanOrEqual(25 * HOUR);
});

test('what only `due` calls is neither missed nor overdue between its calls', async () => {
  const root = await makeSeenRoot({ 'jobs/15min/a.sh': 'exit 0\n' });
  due(root);
  age(root, HOUR);
  due(root);
  const place = cronPlace(root);
  const status = runCommand(['status', '--root', root], place).stdout;
  expect(status).not.toContain('overdue');
  expect(runCommand(['report', '--root', root], place).stdout).not.toContain('did not happen');
  expect(queryLog(root, 'select distinct triggered_by from workers')).toEqual([{ triggered_by: 'due' }]);
});

test('a tier that ran by its own line is not due', async () => {
  const root = await makeRoot({});
  runCommand(['hourly', '--root', root], cronPlace(root));
  due(root);
  expect(scripts(root)).toEqual(['hourly/a', 'daily/a']);
});

test('a pass that was killed is due again, and taken up where it stopped', async () => {
  const root = await makeSeenRoot({
    'jobs/hourly/a.sh': 'echo a >> ran\n',
    'jobs/hourly/b.sh': 'echo b >> ran\n[ -e started ] && exit 0\ntouch started; sleep 60\n',
    'jobs/hourly/c.sh': 'echo c >> ran\n',
  });
  endOrphans(root);
  const killed = startCommand(['due', '--root', root], cronPlace(root));
  await until('the second script runs', () => existsSync(join(root, 'started')));
  const pid = () => queryLog<{ pid: number | null }>(root, 'select pid from runs where id = 2')[0]?.pid;
  await until('its process is recorded', () => pid() != null);
  killed.kill('SIGKILL');
  await killed.ended;
  process.kill(-Number(pid()), 'SIGKILL');
  expect(due(root)).toEqual(silent);
  expect(readFileSync(join(root, 'ran'), 'utf8')).toBe('a\nb\nc\nb\n');
  expect(due(root)).toEqual(silent);
  expect(readFileSync(join(root, 'ran'), 'utf8')).toBe('a\nb\nc\nb\n');
});

test('a tier that is not to be caught up is left out when it is late, and that is recorded once', async () => {
  const root = await makeRoot({
    'runner.config.json': JSON.stringify({ tiers: { monthly: { catchUp: 'skip' } } }),
    'jobs/monthly/a.sh': tells,
  });
  runCommand(['monthly', '--root', root], cronPlace(root));
  age(root, 70 * 24 * HOUR);
  const now = new Date();
  const isLate = now.getTime() - new Date(now.getFullYear(), now.getMonth(), 1).getTime() > HOUR;
  due(root);
  due(root);
  const runs = scripts(root).filter((script) => script === 'monthly/a').length;
  expect(runs).toBe(isLate ? 1 : 2);
  const skipped = queryLog<{ reason: string }>(
    root,
    `select reason from workers where tier = 'monthly' and state = 'skipped'`,
  );
  expect(skipped).toHaveLength(isLate ? 1 : 0);
  if (isLate) expect(skipped[0]?.reason).toMatch(/^it was missed by .+, and its tier's catchUp is 'skip'$/);
});

test('a failing catch-up is not caught up again', async () => {
  const root = await makeSeenRoot({ 'jobs/hourly/a.sh': 'exit 3\n' });
  expect(due(root).status).toBe(1);
  expect(due(root)).toEqual(silent);
  expect(scripts(root)).toEqual(['hourly/a']);
});

test('a budget that is used up defers the rest; it comes first in the next call', async () => {
  const root = await makeSeenRoot({
    'jobs/hourly/a.sh': 'sleep 1.2\n',
    'jobs/hourly/b.sh': 'exit 0\n',
    'jobs/hourly/c.sh': 'exit 0\n',
    'jobs/daily/a.sh': 'exit 0\n',
  });
  expect(due(root, '--budget', '1s')).toEqual(silent);
  expect(scripts(root)).toEqual(['hourly/a']);
  const reason = 'the budget of 1s is used up';
  expect(queryLog(root, `select name, state, reason from jobs where finished_at is null`)).toEqual([
    { name: 'hourly/b', state: 'queued', reason },
    { name: 'hourly/c', state: 'queued', reason },
  ]);
  expect(queryLog(root, 'select kind, tier, state, reason from workers')).toEqual([
    { kind: 'tier', tier: 'hourly', state: 'finished', reason },
  ]);
  expect(due(root)).toEqual(silent);
  expect(scripts(root)).toEqual(['hourly/a', 'hourly/b', 'hourly/c', 'daily/a']);
});

test('a host that is slower than the budget comes to one script with each call all the same', async () => {
  const root = await makeRoot({ 'jobs/hourly/a.sh': '', 'jobs/hourly/b.sh': '' });
  expect(due(root, '--budget', '1ms')).toEqual(silent);
  expect(due(root, '--budget', '1ms')).toEqual(silent);
  expect(queryLog(root, 'select script, outcome from runs')).toEqual([
    { script: 'hourly/a', outcome: 'succeeded' },
    { script: 'hourly/b', outcome: 'succeeded' },
  ]);
});

test('a script that usually takes longer than what is left of the budget is not begun', async () => {
  const root = await makeSeenRoot({
    'jobs/hourly/a.sh': 'exit 0\n',
    'jobs/hourly/b.sh': '[ -e quick ] || sleep 1.2\n',
  });
  due(root);
  age(root, 2 * HOUR);
  expect(due(root, '--budget', '1s')).toEqual(silent);
  expect(scripts(root)).toEqual(['hourly/a', 'hourly/b', 'hourly/a']);
  const [deferred] = queryLog<{ reason: string }>(root, 'select reason from jobs where finished_at is null');
  expect(deferred?.reason).toMatch(/^hourly\/b usually takes 1\.\ds, and only \d+ms of the budget of 1s is left$/);
  // First in line, it is begun whatever it takes: else it would never come to its turn.
  expect(due(root, '--budget', '1s')).toEqual(silent);
  expect(scripts(root)).toEqual(['hourly/a', 'hourly/b', 'hourly/a', 'hourly/b']);
});

test.each([
  ['5', 'a duration such as 55s or 14m, found "5"'],
  ['soon', 'a duration such as 55s or 14m, found "soon"'],
  ['-1s', 'a duration such as 55s or 14m, found "-1s"'],
  ['0s', 'longer than 0s, such as 55s or 14m, found "0s"; without it, the call has no limit of time'],
])('--budget %s is refused in one sentence', async (budget, expected) => {
  const { status, stderr } = due(await makeRoot({}), '--budget', budget);
  expect({ status, stderr }).toEqual({ status: 2, stderr: `runner: --budget must be ${expected}.\n` });
});
