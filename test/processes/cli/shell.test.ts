import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { commandNames } from '../../../src/system/base/command-names.ts';
import { commandPath, cronEnv, runCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const files = {
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
    const root = makeTemporaryRoot(files);
    expect(wordsAt(root, line)).toEqual(words);
  });

  test('numbers of jobs and of runs are those of the log, the newest first', () => {
    const root = makeTemporaryRoot(files);
    call(root, 'add', 'mail/welcome');
    call(root, 'add', 'mail/welcome');
    call(root, 'work', '--max-jobs', '1');
    expect(complete(root, 'runner job ')).toEqual(['2\tmail/welcome queued', '1\tmail/welcome finished']);
    expect(complete(root, 'runner show ')).toEqual(['1\tqueue/mail/welcome succeeded']);
  });

  test('the root is the one that the line names', () => {
    const [root, other] = [makeTemporaryRoot(files), makeTemporaryRoot()];
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
  const root = makeTemporaryRoot(files);
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
  const root = makeTemporaryRoot(files);
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
