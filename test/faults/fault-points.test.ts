import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runNode } from '../support/command.ts';
import { distinctPoints, kindOf, listFaultPoints, runWithFault, traceFaultPoints } from '../support/faults/faults.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';

const preload = new URL('../support/faults/fault-points.cjs', import.meta.url).pathname;

/** Functions of `node:fs` that change nothing, or go by others that do. */
const reading = new Set([
  ...['access', 'close', 'exists', 'fstat', 'glob', 'lstat', 'open', 'openAsBlob', 'opendir', 'read'],
  ...['readdir', 'readFile', 'readlink', 'readv', 'realpath', 'stat', 'statfs', 'unwatchFile'],
  ...['watch', 'watchFile', 'createReadStream', 'createWriteStream', 'mkdtempDisposable'],
]);

test.each(['require("node:fs")', 'require("node:fs").promises'])(
  'every function of %s that changes something is watched, of this Node too',
  (fs) => {
    const print = `
      const fs = ${fs};
      const unwatched = Object.keys(fs).filter((name) =>
        /^[a-z]/.test(name) && typeof fs[name] === 'function' && !fs[name].isFaultPoint);
      console.log(JSON.stringify(unwatched));`;
    const { stdout } = runNode(['--require', preload, '--eval', print], { cwd: '/', env: {} });
    const unknown = JSON.parse(stdout).filter((name: string) => !reading.has(name.replace(/Sync$/, '')));
    expect(unknown).toEqual([]);
  },
);

/** What a run's files are called by. */
const key = '<n>.<n>';

/** A first pass that does whatever a pass can: it fails, retries, keeps long output, lasts a while. */
const files = {
  'jobs/hourly/big.sh': executable('#!/bin/sh\nhead -c 200000 /dev/zero | tr "\\0" x\nsleep 0.3\n'),
  'jobs/hourly/fails.sh': executable('#!/bin/sh\n# @retries 1\n# @retry-delay 1ms\n# @nice 5\nexit 1\n'),
  'jobs/hourly/slow.sh': executable('#!/bin/sh\n# @timeout 1s\nsleep 60\n'),
};

test('the steps of a pass are all there, in their order', async () => {
  const root = makeTemporaryRoot(files);
  const points = await listFaultPoints(root, ['hourly']);
  expect(new Set(points).size).toBe(points.length);
  const kinds = points.map(kindOf);
  const wanted = [
    ...['fs.mkdir .runner', 'sql pragma journal_mode'],
    ...['sql create table jobs id', 'sql pragma user_version'],
    ...['fs.rename .runner/locks/hourly.lock.<token>.new', 'sql insert workers'],
    ...['sql insert jobs', 'sql update jobs set state', 'sql insert runs'],
    ...[`fs.mkdir .runner/tmp/${key}`, `fs.open .runner/output/${key}.log`, 'spawn'],
    ...['setPriority', 'kill SIGTERM', `fs.open .runner/output/${key}.log.gz`, 'fs.write'],
    ...['sql update runs set left_job', `fs.unlink .runner/output/${key}.log`],
    ...['fs.fdatasync'],
    ...['sql begin', 'sql commit', 'fs.rmdir .runner/locks/hourly.lock', 'sql close'],
  ];
  expect(wanted.filter((kind) => !kinds.includes(kind))).toEqual([]);
  const count = (kind: string): number => kinds.filter((each) => each === kind).length;
  expect(count('spawn')).toBe(4);
  // Each once: those that last have their row before their end.
  expect(count('sql insert runs')).toBe(4);
  expect(count('sql update runs set left_job')).toBe(2);
  // It is claimed before it is started.
  expect(points.indexOf('sql update jobs set state#1')).toBeLessThan(points.indexOf('spawn#1'));
});

test('of points that do the same, those have the same place that differ in the script alone', async () => {
  const scripts = ['a', 'b', 'c', 'd'].map((name) => [`jobs/hourly/${name}.sh`, executable('#!/bin/sh\nexit 0\n')]);
  const { points, placeOf } = await traceFaultPoints(makeTemporaryRoot(Object.fromEntries(scripts)), ['hourly']);
  for (const point of points) expect(placeOf(point)).toMatch(/\(?\S+\.cjs:\d+:\d+\)?/);
  const [, second, third] = points.filter((point) => kindOf(point) === 'spawn').map(placeOf);
  expect(second).toBe(third);
  const commits = points.filter((point) => kindOf(point) === 'sql commit').map(placeOf);
  expect(new Set(commits).size).toBeGreaterThan(5);
  expect(new Set(commits).size).toBeLessThan(commits.length);
});

test('making what is there and removing what is not are no steps', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable('#!/bin/sh\nexit 0\n') });
  const kindsOfPass = async () => (await listFaultPoints(root, ['hourly'])).map(kindOf);
  const making = ['fs.mkdir .runner', 'fs.mkdir .runner/output'];
  expect(await kindsOfPass()).toEqual(expect.arrayContaining(making));
  const again = await kindsOfPass();
  expect(again.filter((kind) => making.includes(kind))).toEqual([]);
  // A shell script leaves no result; its output and its folder are there.
  expect(again).not.toContain(`fs.unlink .runner/results/${key}.json`);
  expect(again).toEqual(expect.arrayContaining([`fs.unlink .runner/output/${key}.log`, `fs.rmdir .runner/tmp/${key}`]));
});

test.each([
  [`before fs.mkdir .runner/tmp/${key}#1`, [], []],
  [`after fs.mkdir .runner/tmp/${key}#1`, ['1.1'], []],
  [`before fs.open .runner/output/${key}.log#1`, ['1.1'], []],
  [`after fs.open .runner/output/${key}.log#1`, ['1.1'], ['1.1.log']],
])('a runner ends where it is told to: %s', async (at, temporary, output) => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable('#!/bin/sh\ntouch ran\n') });
  expect(await runWithFault(root, ['hourly'], { at })).toMatchObject({ status: null, stderr: '' });
  expect(readdirSync(join(root, '.runner/tmp'))).toEqual(temporary);
  expect(readdirSync(join(root, '.runner/output'))).toEqual(output);
  expect(existsSync(join(root, 'ran'))).toBe(false);
});

test('of the steps of a transaction only its end leaves something', () => {
  const points = [
    ...['fs.mkdir .runner#1', 'sql pragma busy_timeout#1', 'sql begin#1', 'sql insert jobs#1'],
    ...['sql update jobs set state#1', 'sql commit#1', 'spawn#1', 'sql update jobs set state#2'],
    ...['sql begin#2', 'sql commit#2', 'sql begin#3', 'fs.rm a#1', 'sql delete jobs#1'],
    ...['sql rollback#1', 'sql close#1'],
  ];
  expect(distinctPoints(points)).toEqual([
    ...['fs.mkdir .runner#1', 'sql commit#1', 'spawn#1', 'sql update jobs set state#2'],
    ...['fs.rm a#1', 'sql close#1'],
  ]);
});

test('a point can be told by its number, and one that is not reached changes nothing', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable('#!/bin/sh\nexit 0\n') });
  expect((await runWithFault(root, ['hourly'], { at: 'before 1' })).status).toBeNull();
  expect(readdirSync(root)).toEqual(['jobs']);
  expect((await runWithFault(root, ['hourly'], { at: 'before 10000' })).status).toBe(0);
});

test('the clock is set from the beginning, or from a point on; scripts keep the kernel’s', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable('#!/bin/sh\ndate +%s >> dates\n') });
  const dayMs = 86_400_000;
  await runWithFault(root, ['hourly'], { clockMs: -dayMs });
  await runWithFault(root, ['hourly'], { clockMs: dayMs, clockFrom: 1_000_000 });
  const days = 'select round((started_at - ?) / 86400000.0) as days from runs order by id';
  expect(queryLog(root, days, Date.now())).toEqual([{ days: -1 }, { days: 0 }]);
  const dates = readFileSync(join(root, 'dates'), 'utf8').trim().split('\n').map(Number);
  expect(dates.map((seconds) => Math.round((seconds * 1000 - Date.now()) / dayMs))).toEqual([-0, -0]);
});
