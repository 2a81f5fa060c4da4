import { spawnSync } from 'node:child_process';
import { existsSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { scriptNameOf } from '../../../src/discovery/find-script.ts';
import { commandNames } from '../../../src/system/base/command-names.ts';
import { callCommand, commandPath, cronEnv, inRoot, runCommand } from '../../support/command.ts';
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

  test('a name that several share is left to the caller that looks it up', () => {
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

const shellFiles = {
  'jobs/hourly/import-orders.ts': '',
  'jobs/hourly/two words.sh': '',
  'jobs/hourly/$(touch pwned).sh': '',
  'jobs/hourly/off.sh.disabled': '',
  'jobs/daily/backup.sh': '',
  'jobs/queue/mail/welcome.sh': 'true',
};

const call = (root: string, ...args: readonly string[]) => runCommand(args, { cwd: root, env: cronEnv(root) });

/** What is offered at this line, which ends where the cursor is. */
function complete(root: string, line: string): string[] {
  const { status, stdout, stderr } = call(root, 'complete', '--', ...line.split(' ').slice(1));
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout.split('\n').slice(0, -1);
}

const wordsAt = (root: string, line: string): string[] =>
  complete(root, line).map((candidate) => candidate.split('\t', 1)[0] as string);

describe('at a line', () => {
  test.each([
    ['runner run d', ['daily/backup']],
    ['runner run daily/backup -- d', []],
    ['runner run import', ['hourly/import-orders']],
    ['runner why queue/', ['queue/mail/welcome']],
    ['runner disable dai', ['daily/backup']],
    ['runner enable ', ['hourly/off']],
    ['runner add ', ['mail/welcome']],
    ['runner add mail/welcome ', []],
    ['runner claim m', ['mail/welcome']],
    ['runner mute dai', ['daily/backup']],
    ['runner report --tier d', ['daily']],
    ['runner help unm', ['unmute']],
    ['runner pause mail', ['mail/welcome']],
    ['runner pause q', ['queue']],
    ['runner new h', ['hourly/']],
    ['runner cron --tiers ', ['daily', 'hourly']],
    ['runner new daily/x --lang p', ['php']],
    ['runner completion z', ['zsh']],
    ['runner web token r', ['revoke']],
    ['runner job 7 bu', ['bury']],
    ['runner hou', ['hourly']],
    ['runner unins', ['uninstall']],
    ['runner backup ', []],
    ['runner status x', []],
    ['runner report --mai', ['--mail']],
    ['runner list --as', ['--as-root']],
    ['runner --root /nowhere run ', []],
  ])('%s: %j', (line, words) => {
    const root = makeTemporaryRoot(shellFiles);
    expect(wordsAt(root, line)).toEqual(words);
  });

  test('numbers of jobs and of runs are those of the log, the newest first', () => {
    const root = makeTemporaryRoot(shellFiles);
    call(root, 'add', 'mail/welcome');
    call(root, 'add', 'mail/welcome');
    call(root, 'work', '--max-jobs', '1');
    expect(complete(root, 'runner job ')).toEqual(['2\tmail/welcome queued', '1\tmail/welcome finished']);
    expect(complete(root, 'runner show ')).toEqual(['1\tqueue/mail/welcome succeeded']);
  });

  test('the root is the one that the line names', () => {
    const [root, other] = [makeTemporaryRoot(shellFiles), makeTemporaryRoot()];
    expect(wordsAt(other, `runner --root ${root} run d`)).toEqual(['daily/backup']);
  });

  test('all commands are offered with what they do, and nothing else', () => {
    const root = makeTemporaryRoot();
    expect(wordsAt(root, 'runner ')).toEqual([...commandNames, 'help']);
    expect(complete(root, 'runner hel')).toEqual(['help\tprint the help of a command']);
  });
});

/** Its own matching would drop them: without -U it takes only words that begin with what was typed. */
test.skipIf(!existsSync('/usr/bin/zsh'))('zsh takes names that only contain what was typed', () => {
  const root = makeTemporaryRoot(shellFiles);
  writeFileSync(join(root, 'runner'), `#!/bin/sh\nexec ${process.execPath} ${commandPath} "$@"\n`, { mode: 0o755 });
  const script = `
    compdef() { : }
    compadd() { print -r -- "$1 \${(j:|:)values}" }
    source <(./runner completion zsh)
    words=(./runner run import) CURRENT=3
    _folder_runner`;
  const { stdout, stderr } = spawnSync('/usr/bin/zsh', ['-f', '-c', script], {
    cwd: root,
    env: { ...cronEnv(root), PATH: `${root}:/usr/bin:/bin` },
    encoding: 'utf8',
  });
  expect({ stdout, stderr }).toEqual({ stdout: '-U hourly/import-orders\n', stderr: '' });
});

test('bash completes, and a name is neither run nor falls apart', () => {
  const root = makeTemporaryRoot(shellFiles);
  writeFileSync(join(root, 'runner'), `#!/bin/sh\nexec ${process.execPath} ${commandPath} "$@"\n`, { mode: 0o755 });
  const script = `
    source <(./runner completion bash)
    try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _folder_runner 2>/dev/null; printf '%s|' "\${COMPREPLY[@]}"; echo; }
    try ./runner run hourly/
    try ./runner run import
    try runner lis
    try ./runner backup ''`;
  const env = { ...cronEnv(root), PATH: `${root}:/usr/bin:/bin` };
  const { stdout, status } = spawnSync('/bin/bash', ['--norc', '-c', script], { cwd: root, env, encoding: 'utf8' });
  expect({ status, lines: stdout.split('\n') }).toEqual({
    status: 0,
    lines: [
      String.raw`hourly/\$\(touch\ pwned\)|hourly/import-orders|hourly/two\ words|`,
      'hourly/import-orders|',
      'list|',
      '|',
      '',
    ],
  });
  expect(existsSync(join(root, 'pwned'))).toBe(false);
});

const writers: readonly [string, ...string[]][] = [
  ['hourly'],
  ['run', 'hourly/a'],
  ['add', 'mail'],
  ['work'],
  ['pause', 'hourly'],
  ['resume'],
  ['backup', 'x.db'],
];

function makeServedRoot(): string {
  const home = makeTemporaryRoot({
    'public_html/app/jobs/hourly/a.sh': 'true\n',
    'public_html/app/jobs/queue/mail.sh': 'true\n',
  });
  return join(home, 'public_html/app');
}

describe('inside a web root', () => {
  test.each(writers)('runner %s is refused, and makes nothing', async (...args) => {
    const root = makeServedRoot();
    const { status, stdout, stderr } = await inRoot(root, ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(/^runner: \S+ is inside \S+\/public_html, which a web server .+\n$/);
    expect([existsSync(join(root, '.runner')), existsSync(join(root, 'x.db'))]).toEqual([false, false]);
  });

  test('all of them work where the settings allow it', async () => {
    const root = makeServedRoot();
    writeFileSync(join(root, 'runner.config.json'), '{"allowUnsafe": true}');
    for (const args of writers) expect(await inRoot(root, ...args)).toMatchObject({ status: 0 });
    expect(existsSync(join(root, 'x.db'))).toBe(true);
  });
});

test.each([['init'], ...writers.filter(([command]) => command !== 'backup')])(
  'runner %s is refused where .runner is a link into a web root',
  async (...args) => {
    const home = makeTemporaryRoot({
      'public_html/state/.gitignore': '*\n',
      'app/jobs/hourly/a.sh': 'true\n',
      'app/jobs/queue/mail.sh': 'true\n',
    });
    const root = join(home, 'app');
    symlinkSync('../public_html/state', join(root, '.runner'));
    expect(await inRoot(root, ...args)).toEqual({
      status: 2,
      stdout: '',
      stderr: expect.stringMatching(/^runner: \S+\/\.runner leads into \S+\/public_html, .+\n$/),
    });
    expect(existsSync(join(home, 'public_html/state/activity.db'))).toBe(false);
  },
);
