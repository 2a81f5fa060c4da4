import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runWithFault, startWithFault } from '../support/faults/faults.ts';
import { checkInvariants, shellScript } from '../support/faults/invariants.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

/* A home is moved, or a site is replaced by its next version, while a pass is at work in it. */

const files = {
  'runner.config.json': '{ "concurrency": 2 }',
  'jobs/hourly/a.sh': executable('#!/bin/sh\ntouch a; while [ ! -e go ]; do sleep 0.02; done\n'),
  'jobs/hourly/b.mjs': `
    import { existsSync, writeFileSync } from 'node:fs';
    writeFileSync('b', '');
    const timer = setInterval(() => existsSync('go') && clearInterval(timer), 10);
    process.on('exit', () => console.log('x'.repeat(100_000)));`,
  'jobs/hourly/c.sh': shellScript(),
  'jobs/daily/d.sh': shellScript(),
};

const outcomes = (root: string) => queryLog(root, 'select script, outcome from runs order by script');

/** A pass whose root is somewhere else before its scripts have ended. */
async function runMoved(move: (root: string, to: string) => void) {
  const root = makeTemporaryRoot(files);
  const to = `${root}-moved`;
  onTestFinished(() => rmSync(to, { recursive: true, force: true }));
  const pass = startWithFault(root, ['hourly'], {});
  await until('both run', () => existsSync(join(root, 'a')) && existsSync(join(root, 'b')));
  move(root, to);
  writeFileSync(join(to, 'go'), '');
  return { root, to, ...(await pass.ended) };
}

test('what ran in a root that is moved is recorded where it is now, and the rest is run there', async () => {
  const { root, to, status, stderr } = await runMoved(renameSync);
  expect([status, stderr.split('\n')]).toEqual([
    0,
    [
      expect.stringMatching(/activity\.db was moved away while it was in use/),
      `runner: ${root} was moved to ${to} during the pass: the next pass there records the finished runs and runs the rest.`,
      '',
    ],
  ]);
  expect(existsSync(root)).toBe(false);
  expect((await runWithFault(to, ['work'])).status).toBe(0);
  const ran = [
    { script: 'hourly/a', outcome: 'succeeded' },
    { script: 'hourly/b', outcome: 'succeeded' },
  ];
  expect(outcomes(to)).toEqual(ran);
  expect(await runWithFault(to, ['daily'])).toMatchObject({ status: 0, stderr: '' });
  expect(outcomes(to)).toEqual([
    { script: 'daily/d', outcome: 'succeeded' },
    ...ran,
    { script: 'hourly/c', outcome: 'succeeded' },
  ]);
  expect(queryLog(to, 'select distinct state from workers')).toEqual([{ state: 'finished' }]);
  checkInvariants(to);
});

test('a new root in its place stays as it is', async () => {
  const { root, to, stderr } = await runMoved((from, moved) => {
    renameSync(from, moved);
    mkdirSync(join(from, 'jobs'), { recursive: true });
  });
  expect(stderr).toContain(`was moved to ${to}`);
  expect(readdirSync(root)).toEqual(['jobs']);
  expect((await runWithFault(to, ['daily'])).status).toBe(0);
  checkInvariants(to);
});

test('a root that is removed is not made again', async () => {
  const { root, status, stderr } = await runMoved((from, moved) => {
    renameSync(from, moved);
    rmSync(join(moved, '.runner'), { recursive: true });
  });
  expect([status, stderr]).toEqual([2, expect.stringContaining(`${root} has no jobs folder any more`)]);
  expect(existsSync(root)).toBe(false);
});
