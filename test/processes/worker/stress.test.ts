import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Ended, type Started, startCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const CRON = { HOME: '/nonexistent', LOGNAME: 'visitor', SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
const QUIET_SUCCESS = { status: 0, stdout: '', stderr: '' };

test('three tiers and reports at the same moment lose no row', async () => {
  const names = nameScripts(['15min', 'hourly', 'daily'], ['a', 'b', 'c', 'd', 'e', 'f']);
  const root = makeTemporaryRoot({ ...saysItsName(names), ...lastsUntilGo(names, 'f') });

  for (const _round of [1, 2]) {
    rmSync(join(root, 'go'), { force: true });
    const passes = ['15min', 'hourly', 'daily'].map((tier) => start(root, tier));
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

  const passes = Array.from({ length: 8 }, () => start(root, 'hourly'));
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

function start(root: string, ...args: readonly string[]): Started {
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
    reports.push(await start(root, 'report', '--json').ended);
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
