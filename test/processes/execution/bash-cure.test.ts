import { expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { findProgram } from '../../../src/system/process/programs.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { runOne } from '../../support/run.ts';

/*
 * The true cure of a script that is not run by what it is written for.
 */

const bash = findProgram('bash', '/usr/local/bin:/usr/bin:/bin') ?? '';
const saidOf = async (name: string, source: Parameters<typeof runOne>[1]): Promise<string> => {
  const { reason, warning } = await runOne(name, source);
  return `${reason ?? ''}${warning ?? ''}`;
};
const isBash = (what: string, line: number): string =>
  `this is bash (${what} in line ${line}), and jobs/hourly/a.sh is run by sh: give it the first line #!${bash}, or name it a.bash`;

test.for([
  ['source ./env', 'source'],
  ['[[ 1 == 1 ]]', '[['],
  ['pushd /tmp', 'pushd'],
  ['shopt -s nullglob', 'shopt'],
  ['declare -A x', 'declare'],
  ['let i=1', 'let'],
  ['i=0; ((i++))', '((i++))'],
  ['set -euo pipefail', 'set -euo pipefail'],
  ['x=a; echo ${x^^}', '${x^^}'],
  ['x=abc; echo "${x:0:2}"', '${x:0:2}'],
  ['cat <(echo 1)', '<(echo 1)'],
  ['function f() {', 'function f'],
  ['function f { true; }', 'function f'],
  ['function f {\n  true\n}', 'function'],
  ['a=(1 2)', 'a=(1 2)'],
  ['for ((i=0;i<3;i++)); do :; done', 'for (('],
  ['cat <<< x', '<<<'],
  ['export -f f', 'export -f'],
  ['mapfile -t x', 'mapfile'],
] as const)('bash that sh does not know is named: %s', async ([line, what]) => {
  expect(await saidOf('a.sh', `true\n${line}\n`)).toContain(isBash(what, 2));
});

test('the cure is that of its first line, or of its tag', async () => {
  const source = '[[ 1 == 1 ]]\n';
  expect(await saidOf('a.sh', `#!/bin/sh\n${source}`)).toContain(`run by sh: change its first line to #!${bash}`);
  expect(await saidOf('a.sh', `# @shell sh -eu\n${source}`)).toContain('run by sh: run it by `@shell bash`');
  expect(await saidOf('a.bash', source)).toBe('');
});

test.for([
  ['a program that is missing', 'sourcery --now', 'sourcery is not installed'],
  ['a word of bash that another program says', 'echo "/x/other.sh: 3: source: not found"; exit 1', 'exit code 1'],
  ['an error of the syntax of any shell', 'if true; then (', 'Syntax error'],
] as const)('%s is no bash', async ([, line, said]) => {
  const found = await saidOf('a.sh', `${line}\n`);
  expect(found).toContain(said);
  expect(found).not.toContain('bash');
  expect(found).not.toContain('source is not installed');
});

test('words behind env that the kernel hands over as one get -S', async () => {
  expect(await saidOf('a.sh', executable('#!/usr/bin/env sh -u\ntrue\n'))).toBe(
    'interpreter not found: sh -u; line 1 of jobs/hourly/a.sh hands "sh -u" to env as one word: write #!/usr/bin/env -S sh -u',
  );
  expect(await saidOf('a.sh', executable('#!/usr/bin/env no-such -u\ntrue\n'))).toContain('; no-such is not installed');
});

test('a byte-order mark in a shell script is named, with what removes it', async () => {
  const source = '\ufeffecho bom\n';
  const said = `jobs/hourly/a.sh:1: it begins with a byte-order mark, which a shell takes as part of the first command; remove it with: sed -i '1s/^\\xEF\\xBB\\xBF//' jobs/hourly/a.sh`;
  expect(await saidOf('a.sh', source)).toContain(said);
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': source });
  const { tiers } = await discover(root, defaultSettings, { tier: 'hourly' });
  expect(tiers[0]?.scripts[0]?.warnings).toEqual([said]);
});
