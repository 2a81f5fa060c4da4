import { chmodSync, lstatSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import parsePrometheus from 'parse-prometheus-text-format';
import { expect, test } from 'vitest';
import { showPrometheus } from '../../../src/commands/monitor/metrics.ts';
import { closeHours } from '../../../src/monitor/metrics/hours.ts';
import { writePrometheus } from '../../../src/monitor/metrics/prometheus.ts';
import { metricsOf } from '../../../src/store/statements/monitor/metrics.ts';
import { pruningOf } from '../../../src/store/statements/pruning.ts';
import { callCommand, contextOf, cronEnv } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';

const hourMs = 3_600_000;
const start = Date.UTC(2026, 10, 3, 14);
const now = start + 2.5 * hourMs;

/** Two hours that are over, and half of one. */
async function writeHours(root = makeTemporaryRoot()): Promise<WrittenLog> {
  const log = await writeLog(root);
  const cpu = { user_cpu_us: 900_000, system_cpu_us: 100_000 };
  await log.addRun('hourly/good', start + 1000, { duration_us: 2_000_000, ...cpu });
  await log.addRun('hourly/good', start + hourMs, { duration_us: 4_000_000, ...cpu });
  await log.addRun('hourly/bad', start + hourMs + 5, { outcome: 'timed-out', duration_us: 500_000, ...cpu });
  await log.addRun('hourly/good', start + 2 * hourMs + 5, { duration_us: 3_000_000, ...cpu });
  return log;
}

const read = async ({ store }: WrittenLog, at = now) => await writePrometheus(store, at, '0.1.0');

/** All series of a metric: the values of its labels, and its value. */
const seriesOf = (text: string, name: string): string[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`))
    .map((line) => {
      const [, labels = '', value] = /\{(.*)\} (.*)$/.exec(line) ?? [];
      return `${[...labels.matchAll(/"([^"]*)"/g)].map(([, label]) => label)} ${value}`;
    });

const counters = [
  ...['runner_runs_total', 'runner_run_duration_seconds_sum', 'runner_run_duration_seconds_count'],
  'runner_run_cpu_time_seconds_total',
];
const countersOf = (text: string) => counters.map((name) => seriesOf(text, name));

const all = [
  ['hourly/bad,timed-out 1', 'hourly/good,succeeded 3'],
  ['hourly/bad 0.5', 'hourly/good 9'],
  ['hourly/bad 1', 'hourly/good 3'],
  ['hourly/bad 1', 'hourly/good 3'],
];

test('the counts are the same before their hour is closed, after it, and after its runs were pruned', async () => {
  const log = await writeHours();
  expect(countersOf(await read(log))).toEqual(all);
  await closeHours(log.store, () => start + 1.5 * hourMs, 60_000);
  expect(countersOf(await read(log))).toEqual(all);
  await closeHours(log.store, () => now, 60_000);
  expect(countersOf(await read(log))).toEqual(all);
  await log.store.transaction((session) => pruningOf(session.statements).oldest(3));
  expect(countersOf(await read(log))).toEqual(all);
  await log.store.transaction((session) => pruningOf(session.statements).oldest(3));
  await closeHours(log.store, () => now + hourMs, 60_000);
  expect(countersOf(await read(log, now + hourMs))).toEqual(all);
  await metricsOf(log.store.statements).prune(now + 24 * hourMs, 1_000);
  expect(countersOf(await read(log, now + hourMs))).toEqual(all);
});

test('quantiles are of the last day, and what is unknown is left out', async () => {
  const log = await writeHours();
  await closeHours(log.store, () => now, 60_000);
  const quantiles = (text: string) =>
    seriesOf(text, 'runner_run_duration_seconds').filter((series) => series.startsWith('hourly/good,'));
  const [p50 = 0, p95 = 0] = quantiles(await read(log)).map((series) => Number(series.split(' ')[1]));
  expect(Math.abs(p50 - 3) / 3).toBeLessThan(0.011);
  expect(Math.abs(p95 - 4) / 4).toBeLessThan(0.011);
  expect(quantiles(await read(log, now + 48 * hourMs))).toEqual([]);
  expect(seriesOf(await read(log), 'runner_last_success_timestamp_seconds')).toEqual([
    `hourly/good ${(start + 2 * hourMs + 5) / 1000}`,
  ]);
  const last = async () => seriesOf(await read(log), 'runner_last_run_succeeded');
  expect(await last()).toEqual(['hourly/bad 0', 'hourly/good 1']);
  await log.addRun('hourly/good', start + 3 * hourMs, { outcome: 'stopped' });
  expect(await last()).toEqual(['hourly/bad 0']);
});

test('the text is what Prometheus reads, whatever scripts are called', async () => {
  const log = await writeHours();
  const name = 'hourly/a "quoted\\" name\nof two lines';
  await log.addRun(name, start + 10);
  const text = await read(log);
  const runs = parsePrometheus(text).find((family) => family.name === 'runner_runs_total');
  expect(runs).toMatchObject({ type: 'COUNTER', help: 'Runs that have ended, by how they did.' });
  const escaped = name.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  expect(text).toContain(`runner_runs_total{script="${escaped}",outcome="succeeded"} 1\n`);
  expect(runs?.metrics).toContainEqual({ value: '3', labels: { script: 'hourly/good', outcome: 'succeeded' } });
  expect(text).toMatch(/^runner_run_duration_seconds\{script="hourly\/good",quantile="0\.95"\} 3\.98\d+$/m);
  expect(text).toContain('\nrunner_run_duration_seconds_sum{script="hourly/good"} 9\n');
  expect(text).toContain('\nrunner_run_duration_seconds_count{script="hourly/good"} 3\n');
});

test('scripts that wait for others are counted, and not any more once they have run', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': '#!/bin/sh\ntest -e good\n',
    'jobs/hourly/b.sh': '#!/bin/sh\n# @after a\n',
    'jobs/hourly/c.sh': '#!/bin/sh\n# @after b\n',
    'jobs/hourly/d.sh': '#!/bin/sh\n# @retries 1\nexit 1\n',
  });
  // A person calls: on a server, cron's calls of one hour would be one.
  const place = { cwd: root, env: { ...cronEnv(root), RUNNER_CALLED_BY: 'person' } };
  const waiting = async () => {
    await callCommand(['hourly'], place);
    const { stdout } = await callCommand(['metrics', '--prometheus'], place);
    return stdout.split('\n').filter((line) => line.startsWith('runner_scripts_waiting'));
  };
  expect(await waiting()).toEqual(['runner_scripts_waiting 2']);
  writeFileSync(join(root, 'good'), '');
  expect(await waiting()).toEqual(['runner_scripts_waiting 0']);
});

/** The rules of `promtool check metrics`. */
test('names and units are as Prometheus asks for them', async () => {
  const log = await writeHours();
  const families = parsePrometheus(await read(log));
  expect(families.length).toBeGreaterThan(15);
  expect(new Set(families.map(({ name }) => name)).size).toBe(families.length);
  for (const { name, type, help, metrics } of families) {
    expect(name).toMatch(/^runner(_[a-z]+)+$/);
    expect(help).not.toBe('');
    expect([name, name.endsWith('_total')]).toEqual([name, type === 'COUNTER']);
    expect(name).not.toMatch(
      /_(count|sum|bucket|gauge|counter|summary|milliseconds|minutes|hours|kilobytes|ms|mb)(_|$)/,
    );
    for (const { labels = {} } of metrics) {
      for (const label of Object.keys(labels)) expect(label).toMatch(/^(?!le$|quantile$)[a-z]+$/);
    }
  }
});

test('--output replaces the file at once, and others can read it', async () => {
  const root = makeTemporaryRoot();
  await writeHours(root);
  const path = join(root, 'runner.prom');
  writeFileSync(path, 'old');
  chmodSync(path, 0o600);
  await showPrometheus(contextOf({ cwd: root, env: {} }), { root, output: 'runner.prom' });
  expect(readFileSync(path, 'utf8')).toContain('# TYPE runner_runs_total counter\n');
  expect(statSync(path).mode & 0o777).toBe(0o644);
  expect(readdirSync(root).filter((name) => name.includes('.prom'))).toEqual(['runner.prom']);
  // What somebody has planted there is replaced, not followed.
  writeFileSync(join(root, 'mine'), 'mine');
  rmSync(path);
  symlinkSync(join(root, 'mine'), path);
  await showPrometheus(contextOf({ cwd: root, env: {} }), { root, output: 'runner.prom' });
  expect(lstatSync(path).isFile()).toBe(true);
  expect(readFileSync(join(root, 'mine'), 'utf8')).toBe('mine');
  const nowhere = showPrometheus(contextOf({ cwd: root, env: {} }), { root, output: 'no/such/folder.prom' });
  await expect(nowhere).rejects.toThrow(/--output .+folder\.prom could not be written \(ENOENT/);
});

test.each([
  [['metrics', '--output', 'x.prom'], /--output needs --prometheus/],
  [['metrics', 'hourly', '--prometheus'], /leave out everything else but --output/],
  [['metrics', '--prometheus', '--json'], /leave out everything else but --output/],
])('%j is wrong use', async (args, message) => {
  const root = makeTemporaryRoot();
  const { status, stderr } = await callCommand(args, { cwd: root, env: {} });
  expect([status, stderr]).toEqual([2, expect.stringMatching(message)]);
});
