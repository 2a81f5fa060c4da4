import { existsSync, globSync, mkdirSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, type Ended, runner, type Started, startCommand } from '../../support/command.ts';
import { endOrphans, killGroup, startWithFault } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const silent = { status: 0, stdout: '', stderr: '' };
const waits = executable('#!/bin/sh\ntouch "$RUNNER_SCRIPT.started"\nuntil [ -e go ]; do sleep 0.02; done\n');
const touches = executable('#!/bin/sh\ntouch "$RUNNER_SCRIPT.started"\n');

function makeRoot(files: Parameters<typeof makeTemporaryRoot>[0]): string {
  const root = makeTemporaryRoot(files);
  for (const tier of ['15min', 'hourly', 'daily', 'weekly']) mkdirSync(join(root, tier));
  return root;
}

function start(root: string, tier: string): Started {
  return startCommand([tier, '--root', root], cronPlace(root));
}

const hasStarted = (root: string, script: string): boolean => existsSync(join(root, `${script}.started`));

async function startAndWait(root: string, tier: string, pass = start(root, tier)): Promise<Started> {
  await until(`${tier}/a runs`, () => hasStarted(root, `${tier}/a`));
  return pass;
}

function letGo(root: string): void {
  writeFileSync(join(root, 'go'), '');
}

test('a held tier is skipped without a word, and the log tells who held it', async () => {
  const root = makeRoot({ 'jobs/hourly/a.sh': waits });
  const pass = await startAndWait(root, 'hourly');
  expect(runner(root, 'hourly')).toEqual(silent);
  const byHand = runner(root, 'run', 'hourly/a');
  expect(byHand).toMatchObject({ status: 1, stdout: '' });
  expect(byHand.stderr).toMatch(
    /^runner: skipped: another pass of hourly is running: pid \d+ on .+, since \d+ \w+ \d\d:\d\d\n$/,
  );
  letGo(root);
  expect(await pass.ended).toEqual(silent);
  const holder = `^another pass of hourly was running: pid ${pass.pid} on ${hostname()}, since \\d{4}-.+Z$`;
  const reason = expect.stringMatching(new RegExp(holder));
  expect(queryLog(root, 'select kind, state, reason from workers order by id')).toEqual([
    { kind: 'tier', state: 'finished', reason: null },
    { kind: 'tier', state: 'skipped', reason },
    { kind: 'script', state: 'skipped', reason },
  ]);
  expect(queryLog(root, 'select id from runs')).toHaveLength(1);
  expect(queryLog(root, `select id from activity where event = 'worker-skipped'`)).toHaveLength(2);
  expect(readdirSync(join(root, '.runner', 'locks'))).toEqual([]);
});

test('different tiers run side by side', async () => {
  const root = makeRoot({ 'jobs/hourly/a.sh': waits, 'jobs/daily/a.sh': touches });
  const pass = await startAndWait(root, 'hourly');
  expect(runner(root, 'daily')).toEqual(silent);
  expect(hasStarted(root, 'daily/a')).toBe(true);
  letGo(root);
  expect(await pass.ended).toEqual(silent);
});

test('the tier of a killed runner is taken over at once, and what it left is put right', async () => {
  const root = makeRoot({
    'jobs/hourly/a.sh': touches,
    'jobs/hourly/b.sh': executable(
      '#!/bin/sh\n[ -e hourly/b.started ] || { touch hourly/b.started; exec sleep 60; }\n' +
        'echo "crashed before: $RUNNER_PREVIOUSLY_CRASHED"\n',
    ),
    'jobs/hourly/c.sh': touches,
  });
  endOrphans(root);
  const pass = start(root, 'hourly');
  await until('the second script runs', () => hasStarted(root, 'hourly/b'));
  const readPid = () => queryLog<{ pid: number | null }>(root, 'select pid from runs where id = 2');
  await until('its process is recorded', () => readPid()[0]?.pid != null);
  pass.kill('SIGKILL');
  await pass.ended;
  killGroup(readPid()[0]?.pid as number);
  expect(readdirSync(join(root, '.runner', 'locks'))).not.toEqual([]);
  expect(runner(root, 'hourly')).toEqual(silent);
  const died = expect.stringContaining(`the runner (pid ${pass.pid} on ${hostname()}) died while it ran`);
  expect(queryLog(root, 'select script, outcome, reason, left_job from runs order by id')).toEqual([
    { script: 'hourly/a', outcome: 'succeeded', reason: null, left_job: null },
    { script: 'hourly/b', outcome: 'crashed', reason: died, left_job: 'failed' },
    { script: 'hourly/c', outcome: 'succeeded', reason: null, left_job: null },
    { script: 'hourly/a', outcome: 'succeeded', reason: null, left_job: null },
    { script: 'hourly/b', outcome: 'succeeded', reason: null, left_job: null },
  ]);
  expect(queryLog(root, 'select output from runs where id = 5')).toEqual([{ output: 'crashed before: 1\n' }]);
  expect(queryLog(root, 'select name, state, reason from jobs order by id')).toEqual([
    { name: 'hourly/a', state: 'finished', reason: null },
    { name: 'hourly/b', state: 'finished', reason: null },
    { name: 'hourly/c', state: 'finished', reason: null },
  ]);
  expect(queryLog(root, 'select state, reason from workers order by id')).toEqual([
    { state: 'crashed', reason: 'its process has gone without finishing' },
    { state: 'finished', reason: null },
  ]);
  const takenOver = `select worker_id, detail from activity where event = 'lock-taken-over'`;
  expect(queryLog(root, takenOver)).toEqual([
    { worker_id: null, detail: expect.stringMatching(new RegExp(`^took hourly over from pid ${pass.pid} on `)) },
  ]);
  expect(readdirSync(join(root, '.runner', 'locks'))).toEqual([]);
});

test('whatever lies in the place of the lock does not keep the tier from running', () => {
  const root = makeRoot({ 'jobs/hourly/a.sh': touches });
  runner(root, 'hourly');
  const lock = join(root, '.runner', 'locks', 'hourly.lock');
  const leftovers = [
    () => writeFileSync(lock, 'a plain file'),
    () => {
      mkdirSync(lock);
      writeFileSync(join(lock, '.nfs0001'), '');
    },
    () => {
      mkdirSync(lock);
      const tomorrow = new Date(Date.now() + 86_400_000);
      utimesSync(lock, tomorrow, tomorrow);
    },
  ];
  for (const leave of leftovers) {
    leave();
    expect(runner(root, 'hourly')).toEqual(silent);
    expect(readdirSync(join(root, '.runner', 'locks'))).toEqual([]);
  }
  expect(queryLog(root, 'select id from runs')).toHaveLength(4);
});

test('a lock that is lost on the way stops new scripts from starting, and nothing else', async () => {
  const root = makeRoot({
    ...Object.fromEntries(['hourly', 'daily', 'weekly'].map((tier) => [`jobs/${tier}/a.sh`, waits])),
    ...Object.fromEntries(['hourly', 'daily'].map((tier) => [`jobs/${tier}/b.sh`, touches])),
  });
  const locks = join(root, '.runner', 'locks');
  // They refresh their locks each second, instead of every ten.
  const startQuick = (tier: string) => startAndWait(root, tier, startWithFault(root, [tier], { pace: 10 }));
  const passes = [await startQuick('hourly'), await startQuick('daily')];
  rmSync(join(locks, 'hourly.lock'), { recursive: true });
  const [dailyHolder = ''] = globSync('daily.lock/*.json', { cwd: locks });
  rmSync(join(locks, dailyHolder));
  // Begun after them: once its lock is refreshed, the others have looked at theirs.
  const control = await startQuick('weekly');
  const [holder = ''] = globSync('weekly.lock/*.json', { cwd: locks });
  const readTime = (): number => statSync(join(locks, holder)).mtimeMs;
  const takenAt = readTime();
  await until('the third lock is refreshed', () => readTime() !== takenAt);
  letGo(root);
  for (const pass of [...passes, control]) expect(await pass.ended).toEqual(silent);
  for (const tier of ['hourly', 'daily']) {
    const [worker] = queryLog<{ id: number; state: string; reason: string }>(
      root,
      `select id, state, reason from workers where tier = ? and kind = 'tier'`,
      tier,
    );
    expect(worker?.state).toBe('finished');
    expect(worker?.reason).toMatch(new RegExp(`^the lock of ${tier} was lost: `));
    const ran = 'select script, outcome from runs where worker_id = ?';
    expect(queryLog(root, ran, worker?.id)).toEqual([{ script: `${tier}/a`, outcome: 'succeeded' }]);
    const deferred = `select detail from activity where event = 'job-deferred' and worker_id = ?`;
    expect(queryLog(root, deferred, worker?.id)).toEqual([{ detail: worker?.reason }]);
    const lost = `select detail from activity where event = 'lock-lost' and worker_id = ?`;
    expect(queryLog(root, lost, worker?.id)).toEqual([{ detail: expect.stringMatching(/^ENOENT: .+/) }]);
  }
  expect(runner(root, 'daily')).toEqual(silent);
  expect(hasStarted(root, 'daily/b')).toBe(true);
  expect(readdirSync(locks)).toEqual([]);
});

const CRON = { HOME: '/nonexistent', LOGNAME: 'visitor', SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
const QUIET_SUCCESS = { status: 0, stdout: '', stderr: '' };

test('three tiers and reports at the same moment lose no row', async () => {
  const names = nameScripts(['15min', 'hourly', 'daily'], ['a', 'b', 'c', 'd', 'e', 'f']);
  const root = makeTemporaryRoot({ ...saysItsName(names), ...lastsUntilGo(names, 'f') });

  for (const _round of [1, 2]) {
    rmSync(join(root, 'go'), { force: true });
    const passes = ['15min', 'hourly', 'daily'].map((tier) => startCall(root, tier));
    const reports = await reportUntilEnded(root, passes);
    for (const pass of passes) expect(await pass.ended).toEqual(QUIET_SUCCESS);
    for (const { stdout } of reports) expect(JSON.parse(stdout)).toHaveProperty('totals');
    for (const report of reports) expect(report).toMatchObject({ status: 0, stderr: '' });
    expect(reports.length).toBeGreaterThan(1);
  }

  const runs = names.length * 2;
  expect(countBy(root, 'runs', 'outcome')).toEqual({ succeeded: runs });
  expect(countBy(root, 'jobs', 'state')).toEqual({ finished: names.length });
  expect(countBy(root, 'workers', 'state')).toEqual({ finished: 6 });
  expect(countBy(root, 'runs', 'output')).toEqual(Object.fromEntries(names.map((name) => [`${name}\n`, 2])));
  expect(countBy(root, 'activity', 'event')).toMatchObject({
    'worker-started': 6,
    'worker-finished': 6,
    'run-started': runs,
    'job-finished': runs,
  });
  expect(queryLog(root, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
});

test('of eight first passes of one tier at once, one runs it and the others record who has it', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/waits.sh': executable('#!/bin/sh\nwhile [ ! -e "$RUNNER_ROOT/go" ]; do sleep 0.1; done\n'),
  });

  const passes = Array.from({ length: 8 }, () => startCall(root, 'hourly'));
  const ended: Ended[] = [];
  for (const pass of passes) void pass.ended.then((end) => ended.push(end));
  await until('seven passes have ended', () => ended.length === 7, 40_000);
  writeFileSync(join(root, 'go'), '');
  await Promise.all(passes.map((pass) => pass.ended));

  expect(ended).toEqual(Array(8).fill(QUIET_SUCCESS));
  expect(countBy(root, 'workers', 'state')).toEqual({ finished: 1, skipped: 7 });
  expect(countBy(root, 'runs', 'outcome')).toEqual({ succeeded: 1 });
  const [holder] = queryLog<{ pid: number }>(root, `select pid from workers where state = 'finished'`);
  expect(Object.keys(countBy(root, 'workers', 'reason'))).toEqual([
    'null',
    expect.stringContaining(`another pass of hourly was running: pid ${holder?.pid} `),
  ]);
});

function startCall(root: string, ...args: readonly string[]): Started {
  return startCommand(['--root', root, ...args], { cwd: '/', env: CRON });
}

function nameScripts(tiers: readonly string[], names: readonly string[]): string[] {
  return tiers.flatMap((tier) => names.map((name) => `${tier}/${name}`));
}

function saysItsName(scripts: readonly string[]): Record<string, FileContent> {
  const content = '#!/bin/sh\necho "$RUNNER_SCRIPT"\n';
  return Object.fromEntries(scripts.map((name) => [`jobs/${name}.sh`, executable(content)]));
}

/** The scripts of this name end only when two reports have been made beside them. */
function lastsUntilGo(scripts: readonly string[], label: string): Record<string, FileContent> {
  const content = '#!/bin/sh\nwhile [ ! -e "$RUNNER_ROOT/go" ]; do sleep 0.02; done\necho "$RUNNER_SCRIPT"\n';
  const names = scripts.filter((name) => name.endsWith(`/${label}`));
  return Object.fromEntries(names.map((name) => [`jobs/${name}.sh`, executable(content)]));
}

/** One report after the other for as long as a pass goes on. */
async function reportUntilEnded(root: string, passes: readonly Started[]): Promise<Ended[]> {
  let areRunning = true;
  void Promise.all(passes.map((pass) => pass.ended)).then(() => {
    areRunning = false;
  });
  const reports: Ended[] = [];
  while (areRunning) {
    reports.push(await startCall(root, 'report', '--json').ended);
    if (reports.length === 2) writeFileSync(join(root, 'go'), '');
  }
  return reports;
}

/** How many rows of a table have which value; null counts as the word. */
function countBy(root: string, table: string, column: string): Record<string, number> {
  const rows = queryLog<{ value: unknown; count: number }>(
    root,
    `select ${column} as value, count(*) as count from ${table} group by 1 order by 1`,
  );
  return Object.fromEntries(rows.map(({ value, count }) => [String(value), count]));
}
