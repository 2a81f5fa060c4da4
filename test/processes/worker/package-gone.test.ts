import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { openQueue } from '../../../src/index.ts';
import { findViolations, nodeScript, shellScript } from '../../support/faults/invariants.ts';
import { nodeHandler, programHandler } from '../../support/faults/queue.ts';
import { queryLog } from '../../support/log.ts';
import { executable, type FileContent } from '../../support/root.ts';
import { callOwn, install, isKept, makeSite, other, packageOf } from '../../support/site.ts';

const REPLACED = 'the package changed during this pass; the next pass continues';

interface Run {
  readonly outcome: string;
  readonly output: string;
  readonly output_file: string | null;
}

/** A script that takes the package away, as if somebody did while it ran, and not right at the runner's start. */
const takesPackage = (more = ''): FileContent =>
  executable(`#!/bin/sh\nsleep 0.5\nrm -r "$RUNNER_ROOT/node_modules/folder-runner"\n${more}`);

test('without its package a pass starts nothing more, says so, and the next one goes on', async () => {
  const root = makeSite({
    'jobs/hourly/a.sh': takesPackage(),
    'jobs/hourly/b.mjs': nodeScript(),
    'jobs/hourly/c.sh': shellScript(),
  });
  expect(await callOwn(root, ['hourly'])).toEqual({ status: 0, stdout: '', stderr: `runner: ${REPLACED}\n` });
  const waiting = { state: 'queued', attempts: 0, reason: REPLACED };
  expect(readJobs(root)).toMatchObject([{ name: 'hourly/a', state: 'finished' }, waiting, waiting]);

  writeFileSync(join(root, 'jobs/hourly/a.sh'), '');
  install(root, other);
  expect(await callOwn(root, ['hourly'])).toMatchObject({ status: 0, stderr: '' });
  expect(readJobs(root).map(({ state }) => state)).toEqual(['finished', 'finished', 'finished']);
  expect(findViolations(root)).toEqual([]);
});

test('what has failed when the package went is told and kept as ever', async () => {
  const root = makeSite({
    'jobs/hourly/a.sh': takesPackage(
      'echo head; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo tail; sleep 0.3; exit 3',
    ),
  });
  const { status, stderr } = await callOwn(root, ['hourly']);
  expect(status).toBe(1);
  expect(stderr).toMatch(
    /^runner: 1 of 1 scripts of hourly did not succeed .*\n\nhourly\/a failed after .*: exit code 3\n {2}\| /,
  );
  const [run] = queryLog<Run>(root, 'select outcome, output, output_file from runs');
  expect(run).toMatchObject({ outcome: 'failed', output: expect.stringMatching(/^head\n.*left out.*\ntail\n$/s) });
  expect(isKept(root, run?.output_file ?? null)).toBe(true);
});

test('a pass whose package goes while it is read starts nothing', async () => {
  const root = makeSite({
    'jobs/hourly/a.sh': shellScript(),
    // Only the pass reads it: the timer that reads it in every call that lasts is left out.
    'goes.cjs': `const fs = require('node:fs');
      const { readdirSync } = fs;
      const { setTimeout: later } = globalThis;
      const isPackage = (folder) => String(folder).endsWith('folder-runner/dist');
      globalThis.setTimeout = (work, ms, ...values) => later(isPackage(values[0]) ? () => {} : work, ms, ...values);
      fs.readdirSync = (folder, ...options) => {
        const names = readdirSync(folder, ...options);
        if (isPackage(folder)) fs.rmSync(folder, { recursive: true });
        return names;
      };
      require('node:module').syncBuiltinESMExports();`,
  });
  const preload = ['--require', join(root, 'goes.cjs')];
  const { status, stderr } = await callOwn(root, ['hourly'], process.execPath, preload);
  const [first, ...others] = stderr.trimEnd().split('\n');
  expect(first).toBe(`runner: ${REPLACED}`);
  // What comes last in a pass, if it is its time.
  for (const other of others) expect(other).toMatch(/^runner: the package is not complete/);
  expect(status).toBe(0);
  expect(readJobs(root)).toMatchObject([{ state: 'queued', attempts: 0, reason: REPLACED }]);
  expect(findViolations(root)).toEqual([]);
});

test('without its package a worker leaves the other jobs as they are', async () => {
  const tags = ['@isolate'];
  const root = makeSite({
    'jobs/queue/a.sh': takesPackage(),
    'jobs/queue/b.mjs': nodeHandler({ tags }),
    'jobs/queue/c.sh': programHandler(),
  });
  const queue = await openQueue({ root });
  for (const name of ['a', 'b', 'c']) await queue.add(name, {});
  await queue.close();
  expect(await callOwn(root, ['work', '--for', '20s'])).toEqual({ status: 0, stdout: '', stderr: '' });
  const waiting = { state: 'queued', attempts: 0 };
  expect(readJobs(root)).toMatchObject([{ name: 'a', state: 'finished' }, waiting, waiting]);
  expect(findViolations(root)).toEqual([]);
});

test.for([
  ['hourly', 'probe', { 'jobs/hourly/a.mjs': nodeScript() }],
  ['work', 'handler-host', { 'jobs/queue/a.mjs': nodeHandler() }],
] as const)(
  'what %s could not begin, as it was gone by then, the next one begins as a first try',
  async ([args, part, files]) => {
    const root = makeSite(files);
    const queue = await openQueue({ root });
    if (args === 'work') await queue.add('a', {});
    await queue.close();
    // Seen to be there, and Node does not find it.
    const path = join(packageOf(root), `dist/${part}-${packageJson.version}.cjs`);
    unlinkSync(path);
    mkdirSync(path);
    const stderr = args === 'hourly' ? `runner: ${REPLACED}\n` : '';
    expect(await callOwn(root, [args])).toMatchObject({ status: 0, stderr });
    expect(readJobs(root)).toMatchObject([{ state: 'retrying', attempts: 0, reason: REPLACED }]);

    rmSync(packageOf(root), { recursive: true });
    install(root, other);
    expect(await callOwn(root, [args])).toMatchObject({ status: 0, stderr: '' });
    expect(readJobs(root)).toMatchObject([{ state: 'finished' }]);
    const runs = [
      { outcome: 'released', attempt: 1 },
      { outcome: 'succeeded', attempt: 1 },
    ];
    expect(queryLog(root, 'select outcome, attempt from runs order by id')).toEqual(runs);
    expect(findViolations(root)).toEqual([]);
  },
);

test('without its Node a pass says so, and burns no try', async () => {
  const root = makeSite({
    'jobs/hourly/a.sh': executable('#!/bin/sh\nrm "$RUNNER_ROOT/node"\n'),
    'jobs/hourly/b.mjs': nodeScript(),
  });
  const node = join(root, 'node');
  copyFileSync(process.execPath, node);
  const stderr = 'runner: Node changed during this pass; the next pass continues\n';
  expect(await callOwn(root, ['hourly'], node)).toEqual({ status: 0, stdout: '', stderr });
  expect(readJobs(root)).toMatchObject([{ state: 'finished' }, { state: 'queued', attempts: 0 }]);
});

test.for(['cli.cjs', `probe-${packageJson.version}.cjs`, 'pass-[\\w-]{8}.cjs'])(
  'a call that finds no %s in its package says that in a sentence',
  async (missing) => {
    const root = makeSite({ 'jobs/hourly/a.sh': shellScript() });
    const dist = join(packageOf(root), 'dist');
    // Of earlier builds there may be others.
    const [name = missing] = readFileSync(join(dist, 'cli.cjs'), 'utf8').match(missing) ?? [];
    unlinkSync(join(dist, name));
    const { status, stderr } = await callOwn(root, ['hourly']);
    expect(stderr).toMatch(
      /^runner: the package is not complete \(.*\): it is being installed, or was removed\. .*again\.\n$/,
    );
    expect(stderr).toContain(name);
    expect(status).toBe(1);
  },
);

/** The first that a pass asks of its root cannot be read. */
const BROKEN_DISK = `const fs = require('node:fs');
const { statSync } = fs;
fs.statSync = (path, ...options) => {
  if (path.endsWith('/jobs')) throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO', syscall: 'stat', path });
  return statSync(path, ...options);
};
`;

test('a system error whose description has gone with the package is told as that', async () => {
  const root = makeSite({ 'broken-disk.cjs': BROKEN_DISK });
  const dist = join(packageOf(root), 'dist');
  for (const name of readdirSync(dist).filter((each) => each.startsWith('system-error-'))) unlinkSync(join(dist, name));
  const { status, stderr } = await callOwn(root, ['hourly'], process.execPath, [
    '--require',
    join(root, 'broken-disk.cjs'),
  ]);
  expect(stderr).toMatch(/^runner: the package is not complete \(Cannot find module '.\/system-error-.*again\.\n$/);
  expect(status).toBe(1);
});

interface Job {
  readonly name: string;
  readonly state: string;
}

function readJobs(root: string): Job[] {
  return queryLog<Job>(root, 'select name, state, attempts, reason from jobs order by id');
}
