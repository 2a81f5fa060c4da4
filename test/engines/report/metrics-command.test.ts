import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { readCpuLimit } from '../../../src/system/process/memory.ts';
import { inRoot } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

const HOUR = 3_600_000;
const jobs = { 'jobs/hourly/import-orders.sh': '#!/bin/sh\n' };

/** Two scripts, of which one costs four times as much as the other; both began two hours ago. */
async function makeRootWithRuns(): Promise<string> {
  const root = makeTemporaryRoot(jobs);
  const log = await writeLog(root);
  const at = Math.floor(Date.now() / HOUR) * HOUR - 2 * HOUR;
  await log.addRun('hourly/import-orders', at, { user_cpu_us: 30_000_000, system_cpu_us: 0, duration_us: 41_000_000 });
  await log.addRun('daily/=HYPERLINK("x")\x1b[2J', at + HOUR, { user_cpu_us: 120_000_000, system_cpu_us: 0 });
  await log.addRun('daily/unknown-cpu', at, { user_cpu_us: null, system_cpu_us: null, outcome: 'failed' });
  await log.store.close();
  return root;
}

test('what costs most comes first, with its share; what nobody knows comes last', async () => {
  const { status, stdout, stderr } = await inRoot(await makeRootWithRuns(), 'metrics');
  expect([status, stderr]).toEqual([0, '']);
  const lines = stdout.split('\n').filter((line) => /\//.test(line.split(' ', 1)[0] ?? ''));
  expect(lines.map((line) => line.split(/\s+/, 1)[0])).toEqual([
    expect.stringContaining('daily/=HYPERLINK'),
    'hourly/import-orders',
    'daily/unknown-cpu',
  ]);
  expect(lines[0]).toMatch(/80%.* ██████████$/);
  expect(lines[1]).toMatch(/41s.* 20%.* ██$/);
  expect(lines[2]).toMatch(/ 1 +1 .* – +– *(?:–)?$/);
  expect(stdout).toMatch(/^all +3 +1 /m);
  expect(stdout).not.toContain('\x1b');
});

test('of a log of two hours no week is made: what it holds is shown', async () => {
  const { stdout } = await inRoot(await makeRootWithRuns(), 'metrics');
  expect(stdout).not.toContain('cpu/week');
  expect(stdout).toMatch(/^hourly\/import-orders .* 30s +20%/m);
});

test('a log of several weeks tells what a week costs', async () => {
  const root = makeTemporaryRoot(jobs);
  const log = await writeLog(root);
  const at = Math.floor(Date.now() / HOUR) * HOUR - 14 * 24 * HOUR;
  const cpu = { user_cpu_us: 30_000_000, system_cpu_us: 0 };
  for (const day of [0, 4, 8, 12]) await log.addRun('hourly/import-orders', at + day * 24 * HOUR, cpu);
  await log.store.close();
  const { stdout } = await inRoot(root, 'metrics', '--since', '15d');
  expect(stdout).toMatch(/^script .* cpu\/week/m);
  expect(stdout).toMatch(/^hourly\/import-orders .* (5\d(\.\d)?s|1m) +100%/m);
});

test('one script is shown period by period, as JSON and CSV too', async () => {
  const root = await makeRootWithRuns();
  const { stdout } = await inRoot(root, 'metrics', 'import-orders');
  expect(stdout).toMatch(/^hourly\/import-orders\n.* by 1h · times in UTC/);
  expect(stdout).toMatch(/^\d{4}-\d\d-\d\d \d\d:00 +1 +0 +41s +41s +41s +30s +50MB .*████████████$/m);
  const json = JSON.parse((await inRoot(root, 'metrics', 'hourly', '--period', '1w', '--json')).stdout);
  expect(json).toMatchObject({ period: '1w', series: [{ subject: 'hourly', kind: 'tier' }] });
  expect(new Date(json.series[0].buckets[0].from).getUTCDay()).toBe(1);
  expect(json.series[0].total).toMatchObject({ finished: 1, cpuMs: 30_000, runMs: { count: 1, p95: 41_000 } });
  const csv = (await inRoot(root, 'metrics', '--csv')).stdout.split('\n');
  expect(csv[0]).toMatch(/^subject,from,added,/);
  expect(csv.some((line) => line.startsWith("'*,") || line.startsWith('*,'))).toBe(true);
  expect(csv.join('\n')).not.toContain('\x1b');
});

test('an empty log, and one that is not there, are answered in words', async () => {
  const root = makeTemporaryRoot(jobs);
  const { status, stdout } = await inRoot(root, 'metrics');
  expect([status, stdout]).toEqual([0, expect.stringMatching(/^Nothing has run since /)]);
  const one = await inRoot(root, 'metrics', 'import-orders');
  expect(one.stdout).toMatch(/^Nothing of hourly\/import-orders has run since /);
  expect(JSON.parse((await inRoot(root, 'metrics', '--json')).stdout).series).toEqual([]);
});

test('wrong names and periods are told in a sentence', async () => {
  const root = makeTemporaryRoot(jobs);
  const name = await inRoot(root, 'metrics', 'import-order');
  expect([name.status, name.stderr]).toEqual([2, expect.stringContaining('did you mean hourly/import-orders?')]);
  const period = await inRoot(root, 'metrics', '--period', '2h');
  expect([period.status, period.stderr]).toEqual([
    2,
    'runner: --period must be one of 1h, 6h, 12h, 1d, 1w, found "2h".\n',
  ]);
});

test('the limit of CPU time is the lowest of all control groups on the way', () => {
  const limitOf = (files: Readonly<Record<string, string>>) => {
    const root = makeTemporaryRoot();
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), content);
    }
    return readCpuLimit(root);
  };
  const group = { 'proc/self/cgroup': '0::/user/site\n', 'sys/fs/cgroup/cpu.max': 'max 100000\n' };
  expect(limitOf({})).toBeNull();
  expect(limitOf(group)).toBeNull();
  const outer = { ...group, 'sys/fs/cgroup/user/cpu.max': '150000 100000\n' };
  expect(limitOf(outer)).toBe(1.5);
  expect(limitOf({ ...outer, 'sys/fs/cgroup/user/site/cpu.max': '50000 100000\n' })).toBe(0.5);
  const old = { 'proc/self/cgroup': '4:cpu,cpuacct:/site\n', 'sys/fs/cgroup/cpu/site/cpu.cfs_period_us': '100000\n' };
  expect(limitOf({ ...old, 'sys/fs/cgroup/cpu/site/cpu.cfs_quota_us': '25000\n' })).toBe(0.25);
  expect(limitOf({ ...old, 'sys/fs/cgroup/cpu/site/cpu.cfs_quota_us': '-1\n' })).toBeNull();
});
