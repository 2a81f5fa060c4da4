import { existsSync, globSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { fallbackStateFoldersOf } from '../../../src/system/place/fallback.ts';
import { commandPath, cronPlace, runner, startProcess } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const silent = { status: 0, stdout: '', stderr: '' };

function shell(...lines: string[]): FileContent {
  return executable(['#!/bin/sh', ...lines, ''].join('\n'));
}

const runs = 'select script, outcome, reason from runs order by id';

test('a tier’s scripts run one after the other, in the order of their names', () => {
  const alone = shell('mkdir running || exit 9', 'echo "$RUNNER_SCRIPT" >> order', 'rmdir running');
  const root = makeTemporaryRoot({
    'jobs/hourly/b.sh': alone,
    'jobs/hourly/10.sh': alone,
    'jobs/hourly/a.sh': alone,
    'jobs/hourly/9.sh': alone,
    'jobs/hourly/B.sh': alone,
    'jobs/daily/other.sh': alone,
  });
  expect(runner(root, 'hourly')).toEqual(silent);
  const order = ['hourly/10', 'hourly/9', 'hourly/B', 'hourly/a', 'hourly/b'];
  expect(readFileSync(join(root, 'order'), 'utf8').trim().split('\n')).toEqual(order);
  expect(queryLog(root, runs)).toEqual(order.map((script) => ({ script, outcome: 'succeeded', reason: null })));
});

test('a pass is a worker, with a job and a run for each script, and the story of them all', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': shell('echo hello', 'sleep 0.4') });
  const startedAt = Date.now();
  runner(root, 'hourly');
  const hour = new Date(startedAt).setUTCMinutes(0, 0, 0);
  expect(queryLog(root, 'select * from workers')).toEqual([
    expect.objectContaining({ kind: 'tier', tier: 'hourly', state: 'finished', scheduled_for: hour, reason: null }),
  ]);
  expect(queryLog(root, 'select * from jobs')).toEqual([
    expect.objectContaining({ name: 'hourly/a', state: 'finished', scheduled_for: hour }),
  ]);
  const [run] = queryLog<{ started_at: number; finished_at: number }>(root, 'select * from runs');
  expect(run).toMatchObject({
    attempt: 1,
    outcome: 'succeeded',
    exit_code: 0,
    signal: null,
    output: 'hello\n',
    output_bytes: 6,
    output_dropped_bytes: 0,
    output_file: null,
    measured_by: 'sampled',
    pid: expect.any(Number),
    pid_start_ticks: expect.any(Number),
    content_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  expect(run?.started_at).toBeGreaterThanOrEqual(startedAt);
  expect(run?.finished_at).toBeGreaterThanOrEqual(run?.started_at as number);
  expect(queryLog(root, 'select event, job_id, run_id from activity order by id')).toEqual([
    { event: 'worker-started', job_id: null, run_id: null },
    { event: 'run-started', job_id: 1, run_id: 1 },
    { event: 'job-finished', job_id: 1, run_id: 1 },
    { event: 'worker-finished', job_id: null, run_id: null },
  ]);
});

test.for([
  ['sh', shell('echo $$')],
  ['mjs', 'console.log(process.pid);\n'],
] as const)('a run that is over at once has its process in the log: .%s', ([extension, content]) => {
  const root = makeTemporaryRoot({ [`jobs/hourly/a.${extension}`]: content });
  runner(root, 'hourly');
  const { stdout } = runner(root, 'show', '1', '--json');
  const run = JSON.parse(stdout) as { readonly pid: number; readonly output: string };
  expect(run.pid).toBe(Number(run.output));
});

test('nothing but the log is left in the state folder', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': shell('echo hello; touch "$RUNNER_TMPDIR/x"') });
  runner(root, 'hourly');
  for (const folder of ['locks', 'output', 'results', 'tmp']) {
    expect([folder, readdirSync(join(root, '.runner', folder))]).toEqual([folder, []]);
  }
  expect(existsSync(join(root, '.runner', 'activity.db-wal'))).toBe(false);
});

test('one bad script does not keep the others from running', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/1-missing.sh': executable('#!/no/such/shell\n'),
    'jobs/hourly/2-exits.sh': shell('echo half way', 'exit 3'),
    'jobs/hourly/3-dies.sh': shell('kill -9 $$'),
    'jobs/hourly/4-twice.sh': shell('exit 0'),
    'jobs/hourly/4-twice.py': executable('print(1)'),
    'jobs/hourly/5-throws.mjs': 'throw new TypeError("no such thing");',
    'jobs/hourly/6-tag.sh': shell('# @timeout soon', 'exit 0'),
    'jobs/hourly/9-good.sh': shell('exit 0'),
  });
  const { status, stdout, stderr } = runner(root, 'hourly');
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  const outcomes = 'select script, outcome from runs where script not like ? order by id';
  expect(queryLog(root, outcomes, '%twice')).toEqual([
    { script: 'hourly/1-missing', outcome: 'not-started' },
    { script: 'hourly/2-exits', outcome: 'failed' },
    { script: 'hourly/3-dies', outcome: 'killed' },
    { script: 'hourly/5-throws', outcome: 'failed' },
    { script: 'hourly/6-tag', outcome: 'not-started' },
    { script: 'hourly/9-good', outcome: 'succeeded' },
  ]);
  const twice = 'select distinct outcome from runs where script like ?';
  expect(queryLog(root, twice, '%twice')).toEqual([{ outcome: 'not-started' }]);
  for (const name of ['1-missing', '2-exits', '3-dies', '4-twice', '5-throws', '6-tag']) {
    expect(stderr).toContain(`hourly/${name}`);
  }
  expect(stderr).toContain('| half way');
  expect(stderr).not.toContain('9-good');
  expect(queryLog(root, 'select distinct state from jobs order by state')).toEqual([
    { state: 'failed' },
    { state: 'finished' },
  ]);
});

test('two at a time run side by side, when the settings say so', () => {
  const meet = (own: string, other: string): FileContent =>
    shell(`touch ${own}`, 'for i in $(seq 200); do', `[ -e ${other} ] && exit 0`, 'sleep 0.05; done', 'exit 1');
  const root = makeTemporaryRoot({
    'runner.config.json': JSON.stringify({ tiers: { hourly: { concurrency: 2 } } }),
    'jobs/hourly/a.sh': meet('a', 'b'),
    'jobs/hourly/b.sh': meet('b', 'a'),
    'jobs/hourly/c.sh': shell('exit 0'),
  });
  expect(runner(root, 'hourly')).toEqual(silent);
  expect(queryLog(root, 'select outcome from runs')).toEqual(
    Array.from({ length: 3 }, () => ({ outcome: 'succeeded' })),
  );
});

test('no more run at the same time than the settings say', () => {
  const count = shell('mkdir "running-$$"', 'ls -d running-* | wc -l >> most', 'sleep 0.1', 'rmdir "running-$$"');
  const root = makeTemporaryRoot({
    'runner.config.json': JSON.stringify({ concurrency: 2 }),
    ...Object.fromEntries([1, 2, 3, 4, 5].map((each) => [`jobs/hourly/${each}.sh`, count])),
  });
  expect(runner(root, 'hourly')).toEqual(silent);
  const counts = readFileSync(join(root, 'most'), 'utf8').trim().split('\n').map(Number);
  expect(counts).toHaveLength(5);
  expect(Math.max(...counts)).toBe(2);
});

test('an empty tier is a pass like any other', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/README.md': 'nothing to run' });
  expect(runner(root, 'hourly')).toEqual(silent);
  expect(queryLog(root, 'select tier, state from workers')).toEqual([{ tier: 'hourly', state: 'finished' }]);
  expect(queryLog(root, 'select id from jobs')).toEqual([]);
  expect(readdirSync(join(root, '.runner', 'locks'))).toEqual([]);
});

test('where failing crontab lines are disabled, a failure can exit 0; it is told all the same', () => {
  const root = makeTemporaryRoot({
    'runner.config.json': JSON.stringify({ exitZeroOnFailure: true }),
    'jobs/hourly/a.sh': shell('exit 3'),
  });
  const { status, stderr } = runner(root, 'hourly');
  expect(status).toBe(0);
  expect(stderr).toContain('hourly/a failed');
  expect(queryLog(root, runs)).toEqual([{ script: 'hourly/a', outcome: 'failed', reason: 'exit code 3' }]);
});

test('a script is told when it last succeeded', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': shell('echo "[$RUNNER_LAST_SUCCESS] [$RUNNER_PREVIOUSLY_CRASHED]"'),
  });
  runner(root, 'hourly');
  runner(root, 'hourly');
  const [first, second] = queryLog<{ output: string; started_at: number }>(
    root,
    'select output, started_at from runs order by id',
  );
  expect(first?.output).toBe('[] []\n');
  expect(second?.output).toBe(`[${new Date(first?.started_at as number).toISOString()}] []\n`);
});

test('a script without a place for its files beside the log has it elsewhere, and the log knows of it later', () => {
  const root = makeTemporaryRoot({
    'runner.config.json': '{ "concurrency": 2 }',
    'jobs/hourly/a.sh': shell('sleep 0.5'),
    'jobs/hourly/b.sh': shell('mv .runner/tmp gone && touch .runner/tmp'),
    'jobs/hourly/c.sh': shell('exit 0'),
  });
  onTestFinished(() => {
    for (const { path } of fallbackStateFoldersOf(root)) rmSync(path, { recursive: true, force: true });
  });
  const { status, stderr } = runner(root, 'hourly');
  expect([status, stderr]).toEqual([0, expect.stringContaining(`${root}/.runner/tmp is a file, and a folder`)]);
  rmSync(join(root, '.runner/tmp'));
  expect(runner(root, 'due').status).toBe(0);
  const story = queryLog(root, 'select * from runs r join workers w on w.id = r.worker_id order by r.id');
  expect(queryLog(root, runs.replace('by id', 'by script')), JSON.stringify(story)).toEqual(
    ['a', 'b', 'c'].map((name) => ({ script: `hourly/${name}`, outcome: 'succeeded', reason: null })),
  );
});

test('a script whose file an earlier one of the pass removes, renames or moves is cancelled, and no failure', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/10-deploy.sh':
      'cd jobs/hourly && rm 20-old.sh && mv 30-name.mjs 31-name.mjs && mv 70-dir .. && rm 80-next.ts\n',
    'jobs/hourly/20-old.sh': 'true\n',
    'jobs/hourly/30-name.mjs': '',
    'jobs/hourly/50-stays.sh': 'true\n',
    'jobs/hourly/70-dir/index.sh': 'true\n',
    'jobs/hourly/80-next.ts': '',
  });
  expect(runner(root, 'hourly')).toMatchObject({ status: 0, stdout: '', stderr: '' });
  expect(queryLog(root, 'select name, state, reason from jobs order by name')).toEqual([
    { name: 'hourly/10-deploy', state: 'finished', reason: null },
    { name: 'hourly/20-old', state: 'cancelled', reason: 'its file is gone' },
    { name: 'hourly/30-name', state: 'cancelled', reason: 'its file is gone' },
    { name: 'hourly/50-stays', state: 'finished', reason: null },
    { name: 'hourly/70-dir', state: 'cancelled', reason: 'its file is gone' },
    { name: 'hourly/80-next', state: 'cancelled', reason: 'its file is gone' },
  ]);
  expect(queryLog(root, 'select count(*) as runs from runs')).toEqual([{ runs: 2 }]);
  expect(queryLog(root, 'select * from incidents')).toEqual([]);
});

test('a pass whose folder its first script removes ends without a failure', () => {
  const root = makeTemporaryRoot({ 'jobs/lab/a.sh': 'rm -r jobs/lab\n', 'jobs/lab/b.sh': '', 'jobs/hourly/c.sh': '' });
  expect(runner(root, 'lab')).toMatchObject({ status: 0, stderr: '' });
  expect(queryLog(root, 'select state from jobs order by name')).toEqual([
    { state: 'finished' },
    { state: 'cancelled' },
  ]);
});

const modeOf = (path: string): number => statSync(path).mode & 0o777;

test('under umask 000 nobody else can read what the runner writes, nor write what scripts make', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(
      '#!/bin/sh\nhead -c 200000 /dev/urandom | od -x\ntouch page.html; until [ -e go ]; do sleep 0.02; done\n',
    ),
  });
  const command = `umask 000; exec "${process.execPath}" "${commandPath}" hourly --root "${root}"`;
  const pass = startProcess('/bin/sh', ['-c', command], cronPlace(root));
  // The refreshed folder in the lock is made by the library, inside one that nobody else can enter.
  const list = (): string[] => globSync('.runner/**', { cwd: root }).filter((path) => !path.endsWith('.lock'));
  await until('the script has written', () => globSync('page.html', { cwd: root }).length === 1);
  const during = list();
  expect(during).toContainEqual(expect.stringMatching(/locks\/hourly\.lock\/.+\.json$/));
  const open = (paths: readonly string[]): string[] => paths.filter((path) => (modeOf(join(root, path)) & 0o077) !== 0);
  expect(open(during)).toEqual([]);
  await startProcess('/usr/bin/touch', [join(root, 'go')], cronPlace(root)).ended;
  expect(await pass.ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(list()).toContain('.runner/output/1.1.log.gz');
  expect(open(list())).toEqual([]);
  expect(modeOf(join(root, 'page.html'))).toBe(0o644);
});
