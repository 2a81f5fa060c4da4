import { writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runner } from '../../support/command.ts';
import { noted, notesTime, runWithFault } from '../../support/faults/faults.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const afterBoot = (name: string) => `#!/bin/sh\n# @reboot\n${notesTime(name)}`;

const files = {
  'jobs/hourly/each.sh': notesTime('each'),
  'jobs/hourly/boot.sh': afterBoot('hourly'),
  'jobs/daily/boot.sh': afterBoot('daily'),
  'jobs/by-hand/boot.sh': afterBoot('by-hand'),
};

const starts = (root: string) => noted(root).map((line) => line.split(' ')[0]);

/** As if the machine had been booted since the last call, so long ago. */
function callAfterBoot(root: string, tier: string, uptimeS = 0) {
  const earlier = `boot ${hostname()} earlier`;
  expect(changeLog(root, `update chores set name = '${earlier}' where name like 'boot %'`)).toBe(1);
  return runWithFault(root, [tier], { uptimeS });
}

test('after a boot the next pass of any tier runs the scripts of all tiers that ask for it, once', async () => {
  const root = makeTemporaryRoot(files);
  runner(root, 'hourly');
  // However fresh the last boot is: they were not there yet.
  expect(starts(root)).toEqual(['each']);
  const before = noted(root).length;
  await callAfterBoot(root, 'hourly');
  expect(starts(root).slice(before).toSorted()).toEqual(['by-hand', 'daily', 'each', 'hourly']);
  runner(root, 'daily');
  runner(root, 'hourly');
  runner(root, 'due');
  expect(starts(root).slice(before + 4)).toEqual(['each']);
  expect(queryLog(root, `select name from chores where name like 'boot %'`)).toHaveLength(1);
});

test('`npx folder-runner due` runs them too, and a script that is added later waits for the next boot', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/each.sh': notesTime('each') });
  runner(root, 'hourly');
  writeFileSync(join(root, 'jobs/hourly/late.sh'), afterBoot('late'));
  runner(root, 'due');
  runner(root, 'hourly');
  expect(starts(root)).toEqual(['each', 'each']);
  await callAfterBoot(root, 'due');
  expect(starts(root)).toEqual(['each', 'each', 'late']);
});

test('by hand it runs whenever somebody asks', () => {
  const root = makeTemporaryRoot(files);
  runner(root, 'run', 'by-hand/boot');
  expect(starts(root)).toEqual(['by-hand']);
  runner(root, 'by-hand');
  expect(starts(root)).toEqual(['by-hand']);
});

test('one that fails is tried again as its tags say', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/each.sh': 'exit 0\n' });
  runner(root, 'hourly');
  const fails = `#!/bin/sh\n# @reboot\n# @retries 1\n# @retry-delay 1ms\n${notesTime('boot')}exit 1\n`;
  writeFileSync(join(root, 'jobs/hourly/boot.sh'), fails);
  await callAfterBoot(root, 'hourly');
  runner(root, 'hourly');
  expect(starts(root)).toEqual(['boot', 'boot']);
});

test('a script that came after the boot waits for the next one: before an import its crontab line has run', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/each.sh': 'exit 0\n' });
  runner(root, 'hourly');
  writeFileSync(join(root, 'jobs/hourly/boot.sh'), afterBoot('boot'));
  await callAfterBoot(root, 'hourly', 600);
  expect(starts(root)).toEqual([]);
  await callAfterBoot(root, 'hourly');
  expect(starts(root)).toEqual(['boot']);
  writeFileSync(join(root, 'jobs/hourly/boot.sh'), afterBoot('changed'));
  await callAfterBoot(root, 'hourly', 600);
  expect(starts(root)).toEqual(['boot', 'changed']);
});
