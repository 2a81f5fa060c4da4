import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
  createFallbackStateFolder,
  fallbackStateFoldersOf,
  trustedFallbacksOf,
  usableStateFolder,
} from '../../../src/system/place/fallback.ts';
import {
  createStateFolder,
  keptOutputPath,
  listStateFolders,
  moveOutput,
  removeOutput,
  type StateFolder,
  stateFolderOf,
} from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** The first place that is tried where `.runner/` cannot be written. */
const fallbackOf = (root: string): StateFolder => fallbackStateFoldersOf(root)[0] as StateFolder;

test('the state folder lies in the root, and knowing where makes nothing', () => {
  const root = makeTemporaryRoot();
  const folder = stateFolderOf(root);
  expect(folder.path).toBe(join(root, '.runner'));
  const { env: _, ...paths } = folder;
  expect(Object.values(paths).every((path) => path === folder.path || dirname(path) === folder.path)).toBe(true);
  expect(existsSync(folder.path)).toBe(false);
});

test.each([0o000, 0o022, 0o177, 0o377, 0o777])("its folders are its owner's alone, even with umask %o", (umask) => {
  const state = stateFolderOf(makeTemporaryRoot());
  const { database, reserve, unsettledImport, env: _, ...folders } = state;
  const before = process.umask(umask);
  onTestFinished(() => void process.umask(before));
  createStateFolder(state);
  for (const path of Object.values(folders)) expect(statSync(path).mode & 0o777).toBe(0o700);
  expect([database, reserve, unsettledImport].map((path) => existsSync(path))).toEqual([false, false, false]);
  expect([...listStateFolders(state)].sort()).toEqual(Object.values(folders).sort());
});

test('making it again changes nothing', () => {
  const folder = stateFolderOf(makeTemporaryRoot());
  createStateFolder(folder);
  createStateFolder(folder);
  expect(existsSync(folder.locks)).toBe(true);
});

test.each([0o755, 0o770, 0o777, 0o600, 0o500, 0o000])(
  'one that others can enter, or its owner cannot (%o), is put right',
  (mode) => {
    const folder = stateFolderOf(makeTemporaryRoot());
    for (const path of [folder.path, folder.locks]) mkdirSync(path);
    for (const path of [folder.locks, folder.path]) chmodSync(path, mode);
    createStateFolder(folder);
    for (const path of [folder.path, folder.locks]) {
      expect(statSync(path).mode & 0o777).toBe(0o700);
    }
  },
);

test('whoever makes it keeps it out of git; what somebody else has made of that stays', () => {
  const folder = stateFolderOf(makeTemporaryRoot());
  createStateFolder(folder);
  const ignored = join(folder.path, '.gitignore');
  expect([readFileSync(ignored, 'utf8'), statSync(ignored).mode & 0o777]).toEqual(['*\n', 0o600]);
  rmSync(ignored);
  createStateFolder(folder);
  expect(existsSync(ignored)).toBe(false);
});

test('what a link leads to keeps its mode', () => {
  const other = makeTemporaryRoot({ 'state/output/x': '', 'results/x': '' });
  const [root, next] = [makeTemporaryRoot(), makeTemporaryRoot()];
  const paths = ['state/output', 'state', 'results'].map((path) => join(other, path));
  for (const path of paths) chmodSync(path, 0o755);
  symlinkSync(join(other, 'state'), join(root, '.runner'));
  mkdirSync(join(next, '.runner'), { mode: 0o700 });
  symlinkSync(join(other, 'results'), join(next, '.runner/results'));
  for (const each of [root, next]) createStateFolder(stateFolderOf(each));
  expect(paths.map((path) => statSync(path).mode & 0o777)).toEqual([0o755, 0o755, 0o755]);
  expect(existsSync(join(other, 'state/.gitignore'))).toBe(false);
});

/** A temporary folder of the test's own, as the system's one is: everybody can write there. */
function makeTemporaryPlace(mode = 0o1777): string {
  const place = mkdtempSync(join(realpathSync(tmpdir()), 'place-'));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  chmodSync(place, mode);
  vi.stubEnv('TMPDIR', place);
  // As if there were no home.
  for (const name of ['HOME', 'XDG_STATE_HOME']) vi.stubEnv(name, '');
  onTestFinished(() => void vi.unstubAllEnvs());
  return place;
}

test("it is under the system's temporary folder, by user and root, and knowing where makes nothing", () => {
  const place = makeTemporaryPlace();
  const [one, other] = [makeTemporaryRoot(), makeTemporaryRoot()];
  const { path } = fallbackOf(one);
  expect(dirname(path)).toBe(place);
  expect(basename(path)).toMatch(new RegExp(`^folder-runner-${process.getuid?.()}-[\\da-f]{16}$`));
  expect(existsSync(path)).toBe(false);
  expect(fallbackOf(other).path).not.toBe(path);
  symlinkSync(one, join(place, 'link'));
  expect(fallbackOf(join(place, 'link')).path).toBe(path);
});

test.each([0o000, 0o022, 0o177, 0o377, 0o777])("its folders are its owner's alone, even with umask %o", (umask) => {
  makeTemporaryPlace();
  const state = fallbackOf(makeTemporaryRoot());
  const before = process.umask(umask);
  onTestFinished(() => void process.umask(before));
  createFallbackStateFolder(state);
  createFallbackStateFolder(state);
  for (const path of listStateFolders(state)) expect(statSync(path).mode & 0o777).toBe(0o700);
});

test.each([
  ['a symlink', (path: string) => symlinkSync(makeTemporaryRoot(), path), 'it is not a folder'],
  ['a file', (path: string) => writeFileSync(path, ''), 'it is not a folder'],
  [
    'a folder that others can write to',
    (path: string) => {
      mkdirSync(path);
      chmodSync(path, 0o722);
    },
    'others can write to it (mode 0722)',
  ],
])('%s by its name is refused, and left as it is', (_what, make, reason) => {
  makeTemporaryPlace();
  const state = fallbackOf(makeTemporaryRoot());
  make(state.path);
  expect(() => createFallbackStateFolder(state)).toThrow(reason);
  expect(existsSync(state.spool)).toBe(false);
});

test('a folder of ours that others can only look into is closed to them', () => {
  makeTemporaryPlace();
  const state = fallbackOf(makeTemporaryRoot());
  mkdirSync(state.path);
  chmodSync(state.path, 0o755);
  createFallbackStateFolder(state);
  expect(statSync(state.path).mode & 0o777).toBe(0o700);
});

test('a place where others can replace it is refused', () => {
  const place = makeTemporaryPlace(0o777);
  const state = fallbackOf(makeTemporaryRoot());
  expect(() => createFallbackStateFolder(state)).toThrow(`others can replace files in ${place} (mode 0777)`);
});

test('a state folder that can be written is the one that is used', () => {
  makeTemporaryPlace();
  const root = makeTemporaryRoot();
  expect(usableStateFolder(root).path).toBe(join(root, '.runner'));
  expect(existsSync(fallbackOf(root).path)).toBe(false);
});

test('where it cannot be made, the other one takes its place', () => {
  const place = makeTemporaryPlace();
  const root = makeTemporaryRoot({ '.runner': 'a file' });
  const state = usableStateFolder(root);
  expect(dirname(state.path)).toBe(place);
  expect(existsSync(state.output)).toBe(true);
});

test('where none can be written, one sentence names all', () => {
  makeTemporaryPlace();
  const root = makeTemporaryRoot({ '.runner': 'a file' });
  writeFileSync(fallbackOf(root).path, '');
  expect(() => usableStateFolder(root)).toThrow(
    /^No script can be run, as none of these folders can be written: \S+\.runner \(EEXIST.+\), \S+ \(.+\)\. Make one of them writable, or set TMPDIR to a folder that only you can write\.$/,
  );
});

test.each([
  ['HOME', '.local/state'],
  ['XDG_STATE_HOME', ''],
])('where the one under the temporary folder is taken, one by %s takes its place, and stays it', (name, within) => {
  makeTemporaryPlace();
  const home = makeTemporaryRoot();
  vi.stubEnv(name, home);
  const root = makeTemporaryRoot({ '.runner': 'a file' });
  const taken = fallbackOf(root).path;
  writeFileSync(taken, 'by somebody else');
  const { path } = usableStateFolder(root);
  expect(dirname(path)).toBe(join(home, within));
  expect(trustedFallbacksOf(root).map((state) => state.path)).toEqual([path]);
  rmSync(taken);
  expect(usableStateFolder(root).path).toBe(path);
  chmodSync(path, 0o702);
  expect(trustedFallbacksOf(root)).toEqual([]);
  for (const relative of ['.', 'state']) {
    vi.stubEnv(name, relative);
    expect(fallbackStateFoldersOf(root)).toHaveLength(1);
  }
});

const strangeNames = [
  ...[
    '../jobs/mine.log.gz',
    '../../mine.log.gz',
    '..',
    '.',
    '',
    'a/b.log.gz',
    '1.1.log',
    '1.1.log.gz/',
    '1.1.log.gz\n',
  ],
  ...['1.1.log.gz\0', '\u202e1.1.log.gz', '1.1.log.gz.bak', '~/.ssh/authorized_keys', '-rf .log.gz'],
];

test('what a log calls the file of an output is neither read, moved nor removed where it leads elsewhere', () => {
  const root = makeTemporaryRoot({ 'mine.log.gz': 'mine', 'jobs/mine.log.gz': 'mine' });
  const [state, other] = [stateFolderOf(root), stateFolderOf(makeTemporaryRoot())];
  for (const folder of [state, other]) createStateFolder(folder);
  const inside = ['1.1.log.gz', '1.1.log', '1.1.log.gz.bak'].map((name) => join(state.output, name));
  for (const path of inside) writeFileSync(path, 'kept');
  const names = [...strangeNames, join(root, 'mine.log.gz')];
  removeOutput(state, names);
  expect(names.map((name) => [keptOutputPath(state, name), moveOutput(name, state, other)])).toEqual(
    names.map(() => [null, false]),
  );
  expect(inside.map((path) => readFileSync(path, 'utf8'))).toEqual(['kept', 'kept', 'kept']);
  expect(['mine.log.gz', 'jobs/mine.log.gz'].map((name) => readFileSync(join(root, name), 'utf8'))).toEqual([
    'mine',
    'mine',
  ]);
  expect(moveOutput('1.1.log.gz', state, other)).toBe(true);
  removeOutput(other, ['1.1.log.gz']);
  expect(existsSync(join(other.output, '1.1.log.gz'))).toBe(false);
});
