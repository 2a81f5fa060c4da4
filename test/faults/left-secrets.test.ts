import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { cronPlace, runner, startCommand } from '../support/command.ts';
import { engine } from '../support/engines/engines.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import { listRunProcesses } from '../support/faults/log-content.ts';
import { queryLog } from '../support/log.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

/** As Node, PHP and Python write it, it looks different each time. */
const secret = 'p/ss "wörd" (4711)~';
const inPython = JSON.stringify(secret).replace('ö', '\\u00f6');
const forms = [secret, encodeURIComponent(secret), JSON.stringify(secret), inPython, inPython.replace('/', '\\/')];
const traces = /4711|wörd|w%C3|w\\u00f6/;

/** Prints the secret in all its forms, says so, and goes on until it is told to end. */
const prints = `import { existsSync, writeFileSync } from 'node:fs';
const print = async () => {
  const secret = process.env.SHOP_TOKEN ?? '';
  const python = JSON.stringify(secret).replace('ö', '\\\\u00f6');
  const forms = [secret, encodeURIComponent(secret), JSON.stringify(secret), python, python.replace('/', '\\\\/')];
  for (const form of forms) console.log(form);
  console.log('x'.repeat(Number(process.env.MORE ?? 0)) + secret);
  writeFileSync('begun', '');
  while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 10));
};\n`;
const throws = 'throw new Error(`no ${process.env.SHOP_TOKEN}`);';
const asks = '// @env SHOP_TOKEN, MORE\n';
const shell = executable('#!/bin/sh\n# @env SHOP_TOKEN, MORE\nexec node print.mjs\n');

interface Kind {
  readonly files: Readonly<Record<string, FileContent>>;
  /** What is killed, and what comes next, without the variable. */
  readonly killed: readonly string[];
  readonly next: readonly string[];
  readonly job?: true;
  readonly withoutLog?: true;
}

const kinds: Readonly<Record<string, Kind>> = {
  'a program, by its own tier': { files: { 'jobs/hourly/a.sh': shell }, killed: ['hourly'], next: ['hourly'] },
  'a program, by another tier': { files: { 'jobs/hourly/a.sh': shell }, killed: ['hourly'], next: ['daily'] },
  'a program, by a worker': { files: { 'jobs/hourly/a.sh': shell }, killed: ['hourly'], next: ['work'] },
  'a program, by a single script': {
    files: { 'jobs/hourly/a.sh': shell },
    killed: ['run', 'hourly/a'],
    next: ['run', 'daily/other'],
  },
  'a Node script that ended alone, with an error': {
    files: { 'jobs/hourly/a.mjs': `${asks}${prints}await print();\n${throws}\n` },
    killed: ['hourly'],
    next: ['daily'],
  },
  'a run without the log': {
    files: { 'jobs/hourly/a.sh': shell },
    killed: ['hourly'],
    next: ['daily'],
    withoutLog: true,
  },
  'a warm handler': {
    files: { 'jobs/queue/a.mjs': `${asks}${prints}export default async () => { await print(); ${throws} };\n` },
    killed: ['work'],
    next: ['daily'],
    job: true,
  },
  'an isolated handler': {
    files: {
      'jobs/queue/a.mjs': `// @isolate\n${asks}${prints}export default async () => { await print(); ${throws} };\n`,
    },
    killed: ['work'],
    next: ['work'],
    job: true,
  },
  'a program as a handler': { files: { 'jobs/queue/a.sh': shell }, killed: ['hourly'], next: ['daily'], job: true },
};

/** Kills a runner that has the variable while its run prints it; then the run comes to its end. */
async function killDuring({ files, killed, job, withoutLog }: Kind, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const others = { 'jobs/daily/other.sh': 'true\n', 'jobs/hourly/.keep': '', 'print.mjs': `${prints}await print();\n` };
  const root = makeTemporaryRoot({ ...others, ...files });
  if (job) runner(root, 'add', 'a');
  if (withoutLog) {
    runner(root, 'daily');
    engine.setNewer(root, true);
  }
  const place = cronPlace(root);
  const runs = startCommand([...killed, '--root', root], {
    ...place,
    env: { ...place.env, SHOP_TOKEN: secret, ...env },
  });
  await until('it has printed', () => existsSync(join(root, 'begun')));
  runs.kill('SIGKILL');
  await runs.ended;
  if (withoutLog) engine.setNewer(root, false);
  return root;
}

async function letEnd(root: string): Promise<void> {
  writeFileSync(join(root, 'go'), '');
  await until('it has ended', () => listRunProcesses(root).length === 0);
}

/** All that is kept in the state folder. */
function readAll(root: string): string {
  const { path } = stateFolderOf(root);
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const contents = files.map(({ parentPath, name }) => {
    const content = readFileSync(join(parentPath, name));
    return (name.endsWith('.gz') ? gunzipSync(content) : content).toString();
  });
  return contents.join('\n');
}

const outputOf = (root: string): string =>
  queryLog<{ output: string }>(root, 'select output from runs where length(output) > 0 order by id limit 1')[0]
    ?.output ?? '';

const masked = forms.map((form) => (form.startsWith('"') ? '"[SHOP_TOKEN]"\n' : '[SHOP_TOKEN]\n')).join('');

test.each(Object.entries(kinds))(
  'what a killed runner’s run has printed is masked without the variable: %s',
  async (_, kind) => {
    const root = await killDuring(kind);
    await letEnd(root);
    expect(readAll(root)).toMatch(traces);
    runner(root, ...kind.next);
    expect(outputOf(root)).toContain(`${masked}[SHOP_TOKEN]\n`);
    expect(readAll(root)).not.toMatch(traces);
    checkInvariants(root);
  },
);

test('in a long output too, in its file and where head and tail are cut', async () => {
  const kind = { files: { 'jobs/hourly/a.sh': shell }, killed: ['hourly'], next: [] };
  const before = forms.map((form) => Buffer.byteLength(form) + 1).reduce((sum, bytes) => sum + bytes);
  // The last one lies across the beginning of the tail.
  for (const more of [70_000, 32 * 1024 + 10, 32 * 1024 - before - 5]) {
    const root = await killDuring(kind, { MORE: String(more) });
    await letEnd(root);
    runner(root, 'daily');
    expect(outputOf(root)).toMatch(/^\[SHOP_TOKEN\]\n(.*\n)*.*x/);
    expect(readAll(root)).not.toMatch(traces);
    checkInvariants(root);
  }
});

test('the note is kept while the script goes on, and gone with its run', async () => {
  const root = await killDuring(kinds['a program, by another tier'] as Kind);
  const notes = () => readdirSync(stateFolderOf(root).temporary).filter((name) => name.startsWith('secrets.'));
  runner(root, 'daily');
  expect(notes()).toHaveLength(1);
  const shown = runner(root, 'show', '1').stdout + runner(root, 'tail', 'hourly/a').stdout;
  expect(shown).toContain('[SHOP_TOKEN]\n');
  expect(shown).not.toMatch(traces);
  await letEnd(root);
  runner(root, 'daily');
  expect(notes()).toEqual([]);
  expect(readAll(root)).not.toMatch(traces);
});

test('a note has 32 bits of each spelling of a secret, and nothing is left of it after a pass', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'cat .runner/tmp/secrets.*\n',
    'jobs/daily/a.sh': 'stat -c %a .runner/tmp/secrets.*\n',
  });
  const { cwd, env } = cronPlace(root);
  for (const [tier, secrets] of [
    ['hourly', { SHOP_TOKEN: 'tok-4711-0815', A_KEY: 'abcdef' }],
    ['daily', { SHOP_TOKEN: 'tok-4711-0815' }],
    ['hourly', {}],
  ] as const) {
    await startCommand([tier, '--root', root], { cwd, env: { ...env, ...secrets } }).ended;
    expect(readdirSync(stateFolderOf(root).temporary)).toEqual([]);
  }
  const [noted = '', mode, none] = queryLog<{ output: string }>(root, 'select output from runs order by id').map(
    ({ output }) => output,
  );
  expect(JSON.parse(noted)).toEqual([
    { mask: '[SHOP_TOKEN]', size: 13, digest: expect.any(Number) },
    // In upper case, as programs print codes, too.
    { mask: '[SHOP_TOKEN]', size: 13, digest: expect.any(Number) },
    { mask: '[A_KEY]', size: 6, digest: expect.any(Number) },
  ]);
  for (const { digest } of JSON.parse(noted)) expect(digest).toBe(digest >>> 0);
  expect(mode).toBe('600\n');
  expect(none).toMatch(/No such file/);
});
