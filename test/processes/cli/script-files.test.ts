import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { scriptNameOf } from '../../../src/discovery/find-script.ts';
import { callCommand, inRoot } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const files = {
  'jobs/hourly/clean-tmp.sh': 'true\n',
  'jobs/hourly/off.sh.disabled': 'true\n',
  'jobs/hourly/notes.txt': 'no script\n',
  'jobs/daily/v1.2.sh': 'true\n',
  'jobs/daily/import/index.php': '<?php\n',
  'jobs/daily/import/parts.php': '<?php\n',
  'jobs/daily/pack/pack': executable('#!/bin/sh\n'),
  'jobs/queue/mail/welcome.js': 'export default () => {};\n',
  'jobs/queue/mail/mail.js': 'export default () => {};\n',
};

describe('a file in jobs/ is as good as its name', () => {
  test.each([
    ['jobs/hourly/clean-tmp.sh', 'hourly/clean-tmp'],
    ['./jobs/hourly/clean-tmp.sh', 'hourly/clean-tmp'],
    ['jobs/hourly/clean-tmp', 'hourly/clean-tmp'],
    ['hourly/clean-tmp.sh', 'hourly/clean-tmp'],
    ['hourly/clean-tmp', 'hourly/clean-tmp'],
    ['clean-tmp.sh', 'hourly/clean-tmp'],
    ['jobs/hourly/off.sh.disabled', 'hourly/off'],
    ['v1.2', 'daily/v1.2'],
    ['jobs/daily/import', 'daily/import'],
    ['jobs/daily/import/', 'daily/import'],
    ['jobs/daily/import/index.php', 'daily/import'],
    ['jobs/daily/pack/pack', 'daily/pack'],
    ['jobs/queue/mail/welcome.js', 'queue/mail/welcome'],
    ['jobs/queue/mail/mail.js', 'queue/mail/mail'],
  ])('%s is %s', (word, name) => {
    const root = makeTemporaryRoot(files);
    expect(scriptNameOf(word, { root, cwd: root })).toBe(name);
  });

  test('seen from its folder, and by its whole path', () => {
    const root = makeTemporaryRoot(files);
    const cwd = join(root, 'jobs/hourly');
    for (const word of ['./clean-tmp.sh', 'clean-tmp.sh', './clean-tmp', join(cwd, 'clean-tmp.sh')])
      expect(scriptNameOf(word, { root, cwd })).toBe('hourly/clean-tmp');
  });

  test('what several have in common is left to whoever looks it up', () => {
    const root = makeTemporaryRoot({ ...files, 'jobs/daily/clean-tmp.sh': 'true\n' });
    expect(scriptNameOf('clean-tmp.sh', { root, cwd: root })).toBe('clean-tmp');
  });
});

test.each([
  'clean-tmp',
  'jobs/hourly/gone.sh',
  'hourly/notes.txt',
  'mail/*',
  'jobs',
  'jobs/hourly',
  '../other/x.sh',
  '.',
])('no such file, %s stays as it is', (word) => {
  const root = makeTemporaryRoot(files);
  expect(scriptNameOf(word, { root, cwd: root })).toBe(word);
});

test('a file behind a folder that cannot be entered is left to whoever looks it up', () => {
  const root = makeTemporaryRoot(files);
  const deep = `jobs/hourly/${'x'.repeat(300)}.sh`;
  expect(scriptNameOf(deep, { root, cwd: root })).toBe(deep);
});

test('each command about a script takes its file', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/greet.sh': 'echo hello\n' });
  const cwd = join(root, 'jobs/hourly');
  const env = { PATH: process.env.PATH };
  const here = async (...args: readonly string[]) => await callCommand(args, { cwd, env });
  expect(await here('run', './greet.sh')).toMatchObject({ status: 0, stderr: '' });
  for (const word of ['jobs/hourly/greet.sh', 'hourly/greet.sh', 'greet.sh', 'jobs/hourly/greet']) {
    expect((await inRoot(root, 'tail', word)).stdout).toBe('hello\n');
    expect((await inRoot(root, 'report', word)).stdout).toMatch(/^hourly\/greet /);
    expect((await inRoot(root, 'metrics', word)).stdout).toMatch(/^hourly\/greet\n/);
    expect((await inRoot(root, 'why', word)).stdout).toMatch(/^hourly\/greet\n/);
    expect((await inRoot(root, 'pause', word)).stdout).toContain('hourly/greet is paused');
    expect((await inRoot(root, 'resume', word)).stdout).toBe('Resumed: hourly/greet.\n');
    expect((await inRoot(root, 'mute', word)).stdout).toContain('Incidents of hourly/greet are muted until');
    expect((await inRoot(root, 'unmute', word)).stdout).toBe('Unmuted: hourly/greet.\n');
    expect((await inRoot(root, 'acknowledge', word)).stderr).toContain('the subject "hourly/greet"');
  }
  expect((await here('tail', './greet.sh')).stdout).toBe('hello\n');
  writeFileSync(join(root, 'jobs/hourly/greet.js'), '');
  expect((await inRoot(root, 'disable', 'jobs/hourly/greet.js')).stdout).toContain(
    'now jobs/hourly/greet.js.disabled.',
  );
});

test('a script whose name is too long is refused by its reason, whichever command names it', async () => {
  const label = 'a'.repeat(249);
  const root = makeTemporaryRoot({ [`jobs/hourly/${label}.sh`]: 'true\n' });
  const reason = 'its name is too long: tier and name together have at most 255 characters; rename it';
  expect((await inRoot(root, 'list', '--json')).stdout).toContain(reason);
  const why = JSON.parse((await inRoot(root, 'why', `hourly/${label}`, '--json')).stdout);
  expect(why.findings).toContainEqual(
    expect.objectContaining({ topic: 'refused', text: expect.stringContaining(reason) }),
  );
  expect((await inRoot(root, 'run', `hourly/${label}`)).stderr).toContain(reason);
  for (const command of ['show', 'tail']) {
    const { stdout, stderr } = await inRoot(root, command, `hourly/${label}`);
    expect((stdout + stderr).replaceAll(/\s+/g, ' ')).toContain('its name is too long');
  }
  for (const command of ['report', 'metrics', 'pause', 'mute']) {
    expect(await inRoot(root, command, `hourly/${label}`)).toMatchObject({ status: 0 });
  }
});
