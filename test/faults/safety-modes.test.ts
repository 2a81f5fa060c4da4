import { chmodSync, existsSync, globSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { commandPath, cronPlace, runCommand, startProcess } from '../support/command.ts';
import { makeTemporaryRoot } from '../support/root.ts';

const modeOf = (path: string): string => (lstatSync(path).mode & 0o777).toString(8);

/** All that is below a folder, with its mode; what is below Node's own folders is shut in by ours. */
function listModes(folder: string): Record<string, string> {
  const paths = globSync('**', { cwd: folder }).filter((path) => path !== '.');
  return Object.fromEntries(paths.map((path) => [path, modeOf(join(folder, path))]));
}

const files = {
  'jobs/hourly/long.sh': 'head -c 200000 /dev/urandom | od -x\ntouch page.html; mkdir pages\n',
  'jobs/hourly/typed.ts': 'enum Size { Small }\nconsole.log(Size.Small);\n',
  'jobs/hourly/fails.mjs': 'throw new Error("x");\n',
};

test.each([0o000, 0o022, 0o077, 0o177, 0o377, 0o777])(
  'under umask %o the runner’s files are its user’s alone, and what scripts make has cron’s usual modes',
  async (umask) => {
    const root = makeTemporaryRoot(files);
    const command = `umask ${umask.toString(8)}; exec "${process.execPath}" "${commandPath}" hourly --root "${root}"`;
    const { status } = await startProcess('/bin/sh', ['-c', command], cronPlace(root)).ended;
    expect(status).toBe(1);
    const state = join(root, '.runner');
    const modes = Object.entries(listModes(state));
    const ofKind = (isFolder: boolean) =>
      modes.filter(([path]) => lstatSync(join(state, path)).isDirectory() === isFolder);
    expect(modeOf(state)).toBe('700');
    expect(new Set(ofKind(true).map(([, mode]) => mode))).toEqual(new Set(['700']));
    expect(ofKind(false).filter(([, mode]) => mode !== '600')).toEqual([]);
    expect(modes.map(([path]) => path)).toEqual(
      expect.arrayContaining(['activity.db', expect.stringMatching(/^cache\/typescript\/\w+\.js$/)]),
    );
    expect(globSync('output/*.log.gz', { cwd: state })).toHaveLength(1);
    expect(modeOf(join(root, '.cache/folder-runner'))).toBe('700');
    expect(modeOf(join(root, 'page.html'))).toBe('644');
    expect(modeOf(join(root, 'pages'))).toBe('755');
  },
);

test('a compile cache that others could write is made anew: Node would run what is in it', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '' });
  const cache = join(root, '.cache/folder-runner');
  const planted = join(cache, 'v24/planted');
  mkdirSync(dirname(planted), { recursive: true });
  writeFileSync(planted, '');
  chmodSync(cache, 0o777);
  const env = { ...cronPlace(root).env, XDG_CACHE_HOME: '' };
  expect(runCommand(['hourly'], { cwd: root, env }).status).toBe(0);
  expect(existsSync(planted)).toBe(false);
  expect(modeOf(cache)).toBe('700');
  expect(globSync('v*/*', { cwd: cache })).not.toEqual([]);
});

test('a home that is named by no full path gets no compile cache: it would be made in the current folder', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '' });
  for (const env of [{ HOME: '.' }, { HOME: 'x' }, { HOME: root, XDG_CACHE_HOME: 'x' }, {}]) {
    const place = { cwd: root, env: { ...cronPlace(root).env, HOME: undefined, XDG_CACHE_HOME: '', ...env } };
    expect(runCommand(['hourly'], place)).toEqual({ status: 0, stdout: '', stderr: '' });
    expect(readdirSync(root).toSorted()).toEqual(['.runner', 'jobs']);
  }
});
