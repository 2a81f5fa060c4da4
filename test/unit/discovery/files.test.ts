import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, renameSync, statSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { isCurrent, isSettled, markOf, readHandlerIndex } from '../../../src/discovery/handlers.ts';
import { reasonToIgnore } from '../../../src/discovery/jobs-folder.ts';
import { readScriptFile, type ScriptFile } from '../../../src/discovery/script-file.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';

type Files = Readonly<Record<string, FileContent>>;

function makeHourly(files: Files): string {
  const inTier = Object.entries(files).map(([name, file]) => [`jobs/hourly/${name}`, file]);
  return makeTemporaryRoot(Object.fromEntries(inTier));
}

/** The refusals of each script. */
async function refusalsIn(root: string, settings = defaultSettings) {
  const { tiers } = await discover(root, settings, { tier: 'hourly' });
  return Object.fromEntries((tiers[0]?.scripts ?? []).map(({ name, refusals }) => [name, refusals]));
}

const orAllow = ', or allow it with allowUnsafe: true in runner.config.* or RUNNER_ALLOW_UNSAFE=1 in the environment';

test('a script that anybody can write is refused, and only that one', async () => {
  const root = makeHourly({ 'a.sh': { content: '', mode: 0o666 }, 'b.sh': '' });
  expect(await refusalsIn(root)).toEqual({
    'hourly/a': [
      `jobs/hourly/a.sh can be written by anybody (mode 0666); close it with: chmod go-w jobs/hourly/a.sh${orAllow}`,
    ],
    'hourly/b': [],
  });
});

test.each(['.', 'jobs', 'jobs/hourly'])(
  'whoever can write %s can replace what is in it: all is refused',
  async (folder) => {
    const root = makeHourly({ 'a.sh': '', 'b.mjs': '' });
    chmodSync(join(root, folder), 0o777);
    const refusals = await refusalsIn(root);
    const name = folder === '.' ? root : folder;
    const reason = `${name} can be written by anybody (mode 0777); close it with: chmod go-w ${name}${orAllow}`;
    expect(refusals).toEqual({ 'hourly/a': [reason], 'hourly/b': [reason] });
  },
);

test('a script in a folder is judged with its folder', async () => {
  const root = makeHourly({ 'a/index.sh': '', 'b.sh': '' });
  chmodSync(join(root, 'jobs/hourly/a'), 0o757);
  const refusals = await refusalsIn(root);
  expect(refusals['hourly/a']).toEqual([
    expect.stringMatching(/^jobs\/hourly\/a can be written by anybody \(mode 0757\)/),
  ]);
  expect(refusals['hourly/b']).toEqual([]);
});

test('a script behind a link is judged with all that the link leads through', async () => {
  const root = makeHourly({ 'c.sh': '' });
  const elsewhere = makeTemporaryRoot({ 'bin/a.sh': '', 'b.sh': { content: '', mode: 0o602 } });
  chmodSync(join(elsewhere, 'bin'), 0o777);
  symlinkSync(join(elsewhere, 'bin/a.sh'), join(root, 'jobs/hourly/a.sh'));
  symlinkSync(join(elsewhere, 'b.sh'), join(root, 'jobs/hourly/b.sh'));
  expect(await refusalsIn(root)).toEqual({
    'hourly/a': [expect.stringContaining(`${elsewhere}/bin can be written by anybody (mode 0777)`)],
    'hourly/b': [expect.stringContaining(`${elsewhere}/b.sh can be written by anybody (mode 0602)`)],
    'hourly/c': [],
  });
});

test('a tier behind a link is judged likewise', async () => {
  const root = makeTemporaryRoot({ 'releases/1/a.sh': '' });
  symlinkSync('../releases/1', join(root, 'jobs/hourly'));
  expect(await refusalsIn(root)).toEqual({ 'hourly/a': [] });
  chmodSync(join(root, 'releases'), 0o777);
  expect((await refusalsIn(root))['hourly/a']).toEqual([expect.stringMatching(/^releases can be written by anybody/)]);
});

test('what is wrong with its tags is told as well', async () => {
  const root = makeHourly({ 'a.sh': { content: '# @timeout soon\n', mode: 0o646 } });
  expect((await refusalsIn(root))['hourly/a']).toEqual([
    expect.stringContaining('anybody'),
    expect.stringContaining('@timeout must be'),
  ]);
});

test('allowUnsafe lets all of it run', async () => {
  const root = makeHourly({ 'a.sh': { content: '', mode: 0o666 } });
  chmodSync(join(root, 'jobs'), 0o777);
  expect(await refusalsIn(root, { ...defaultSettings, allowUnsafe: true })).toEqual({ 'hourly/a': [] });
});

test('a file that is no script is judged by nobody', async () => {
  const root = makeHourly({ 'notes.txt': { content: '', mode: 0o666 } });
  expect(await refusalsIn(root)).toEqual({});
});

/** An old file, as far as that can be made: the time of its last change of any kind cannot be set back. */
function makeFile(): string {
  const path = join(makeTemporaryRoot({ file: 'one' }), 'file');
  utimesSync(path, 1, 1);
  return path;
}

/** Past the file system's own tick: within it two changes look the same. */
function awaitTick(path: string): void {
  const { ctimeMs } = statSync(path);
  while (Date.now() - ctimeMs < 50);
}

test.each<readonly [string, (path: string) => void]>([
  ['its content', (path) => writeFileSync(path, 'two, longer')],
  [
    'its content, with size and time set back',
    (path) => {
      writeFileSync(path, 'two');
      utimesSync(path, 1, 1);
    },
  ],
  ['its mode', (path) => chmodSync(path, 0o600)],
  [
    'that it was replaced by its like',
    (path) => {
      writeFileSync(`${path}.new`, 'one');
      utimesSync(`${path}.new`, 1, 1);
      renameSync(`${path}.new`, path);
    },
  ],
  ['that it is gone', (path) => renameSync(path, `${path}.gone`)],
])('the mark of a file tells %s', (_, change) => {
  const path = makeFile();
  const mark = markOf(path);
  expect(markOf(path)).toBe(mark);
  awaitTick(path);
  change(path);
  expect(markOf(path)).not.toBe(mark);
});

test('what was changed only just may change again unnoticed: it is read again', () => {
  expect(isSettled(makeFile())).toBe(false);
  expect(isSettled(process.execPath)).toBe(true);
  const root = makeTemporaryRoot({ 'jobs/queue/a.ts': '' });
  const place = { root, settings: defaultSettings, distrust: [], matches: () => false };
  const book = readHandlerIndex(place);
  expect(isCurrent(book)).toBe(false);
  expect(isCurrent({ ...book, isSettled: true })).toBe(true);
});

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

test.each([0, 1, 65_536, 65_537, 1_048_576, 1_048_577, 2_500_000])(
  'of a file of %i bytes it knows the first 64 KB and the hash of all',
  (size) => {
    const content = Buffer.from('0123456789abcde'.repeat(Math.ceil(size / 15)).slice(0, size));
    const root = makeTemporaryRoot({ 'jobs/file': { content, mode: 0o644 } });
    const file = readScriptFile(join(root, 'jobs/file')) as ScriptFile;
    expect(file).toMatchObject({ isWhole: content.length <= 65_536, isExecutable: false });
    expect(file.head.equals(content.subarray(0, 65_536))).toBe(true);
    expect(file.hash()).toBe(sha256(content));
  },
);

test('one of 1 GB is not read as a whole, as it would be by each pass', () => {
  const root = makeTemporaryRoot({ 'jobs/large': executable('#!/bin/sh\n') });
  const path = join(root, 'jobs/large');
  truncateSync(path, 1024 ** 3);
  const content = readScriptFile(path) as ScriptFile;
  expect(content).toMatchObject({ isWhole: false, isExecutable: true });
  expect(content.hash()).toBeNull();
  expect(content.head.toString('latin1', 0, 10)).toBe('#!/bin/sh\n');
});

test('it tells executable files, folders and pipes apart, and does not wait for a pipe', () => {
  const root = makeTemporaryRoot({ 'jobs/program': executable('x') });
  execFileSync('mkfifo', [join(root, 'pipe')]);
  expect(readScriptFile(join(root, 'jobs/program'))).toMatchObject({ isExecutable: true });
  expect(readScriptFile(join(root, 'jobs'))).toBe('folder');
  expect(readScriptFile(join(root, 'pipe'))).toBe('special');
});

test('a missing file is an error of the file system', () => {
  expect(() => readScriptFile('/nowhere/at/all')).toThrow('ENOENT');
});

test.each([
  ['.hidden.sh', 'hidden: its name begins with a dot'],
  ['_shared.ts', 'its name begins with _'],
  ['types.d.ts', 'a type declaration, which does nothing'],
  ['types.d.mts', 'a type declaration, which does nothing'],
  ['clean.test.ts', 'a test'],
  ['clean.test.sh', 'a test'],
  ['clean.sh~', 'a backup copy: its name ends in ~'],
  ['clean.sh.bak', 'a backup copy: its name ends in .bak or .orig'],
  ['clean.orig', 'a backup copy: its name ends in .bak or .orig'],
  ['clean.sh.swp', 'the swap file of an editor'],
  ['clean.sh.new', 'a new version not in use yet: its name ends in .new'],
  ['clean.rpmsave', 'left behind by rpm'],
  ['clean.sh.rpmnew', 'left behind by rpm'],
  ['clean.dpkg-old', 'left behind by dpkg'],
  ['clean.sh.disabled', 'disabled: its name ends in .disabled'],
  ['README', 'documentation'],
  ['readme.md', 'documentation'],
  ['notes.txt', 'text'],
  ['package.json', 'data'],
  ['node_modules', 'node_modules contains packages, not scripts'],
])('%s is no script', (name, reason) => {
  expect(reasonToIgnore(name)).toBe(reason);
});

test.each([
  'clean.sh',
  'clean-tmp.ts',
  'man-db',
  'd.ts',
  'test.ts',
  'new',
  'clean.new.sh',
  'unreadme.sh',
  'bak.sh',
  'a.b.c.js',
  'x',
  'größe.py',
  'disabled',
  'contest.ts',
])('%s may be one', (name) => {
  expect(reasonToIgnore(name)).toBeNull();
});

describe('output that a shell script sends elsewhere', () => {
  const warningsOf = async (script: string): Promise<readonly string[] | undefined> => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': script });
    return (await discover(root, defaultSettings, { tier: 'hourly' })).tiers[0]?.scripts[0]?.warnings;
  };

  test.each([
    ['exec >> own.log 2>&1', 1, 'exec >> own.log', '>> own.log'],
    ['./sync >> "$HOME/sync.log" 2>&1', 1, './sync', '>> "$HOME/sync.log" 2>&1'],
    ['#!/bin/bash\n./sync &>> own.log', 2, './sync', '&>> own.log'],
    ['cat <<EOF >> own.log 2>&1\ntext\nEOF', 1, 'cat', '>> own.log 2>&1'],
    ['cat > x <<EOF\ntext\nEOF\n./sync > own.log 2>&1', 4, './sync', '> own.log 2>&1'],
  ])('%j is told of', async (script, line, _, redirection) => {
    expect(await warningsOf(script)).toEqual([
      `jobs/hourly/a.sh:${line}: ${redirection} sends its output to a file of its own, so the activity log has none ` +
        'of it; remove that, and `npx folder-runner tail` and `npx folder-runner show` have it',
    ]);
  });

  test.each([
    "cat > /etc/cron.d/x <<'EOF'\n0 3 * * * root sync >> /var/log/sync 2>&1\nEOF\n",
    'cat > x <<-"END"\n./sync >> log 2>&1\nEND\n',
    'cat > x <<-END\n\t./sync >> log 2>&1\n\tEND\n',
    'cat > x <<\\END\nexec >> log 2>&1\nEND\n',
    "echo 'usage:\n  ./sync >> log 2>&1\n'\n",
    'echo "\n./sync >> log 2>&1\n"',
    '# ./sync >> log 2>&1',
    './sync # >> log 2>&1',
    './sync > /dev/null 2>&1',
    './sync > "/dev/null" 2>&1',
  ])('%j is not', async (script) => {
    expect(await warningsOf(script)).toEqual([]);
  });
});

test('a script is refused if its schedule names a file of dates that cannot be used', async () => {
  const hint = 'write it with a date such as 2026-12-25 in each line';
  const schedule = (file: string) => `# @schedule daily at 02:30 except ${file}\n`;
  const root = makeHourly({ 'a.sh': schedule('days.txt'), 'b.sh': schedule('none.txt'), 'c.sh': schedule('open.txt') });
  writeFileSync(join(root, 'days.txt'), '2026-12-25\n', { mode: 0o644 });
  writeFileSync(join(root, 'open.txt'), '2026-12-25\n');
  chmodSync(join(root, 'open.txt'), 0o666);
  const wrong = (file: string, problem: string) =>
    `its schedule "daily at 02:30 except ${file}" is wrong: ${file} ${problem}`;
  const missing = wrong('none.txt', `does not exist in ${root}: ${hint}`);
  expect(await refusalsIn(root)).toEqual({
    'hourly/a': [],
    'hourly/b': [missing],
    'hourly/c': [
      wrong('open.txt', `can be written by anybody (mode 0666): close it with: chmod go-w open.txt${orAllow}`),
    ],
  });
  expect(await refusalsIn(root, { ...defaultSettings, allowUnsafe: true })).toMatchObject({ 'hourly/c': [] });
});
