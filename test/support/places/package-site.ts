import {
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { commandPath, type Ended } from '../calls/run-command.ts';
import { startProcess } from '../calls/start-command.ts';
import { type FileContent, makeTemporaryRoot } from './temporary-root.ts';

const versions = mkdtempSync(join(tmpdir(), 'runner-versions-'));
/** The package as npm puts it into a site: the very version of these tests, and another one. */
export const present = join(versions, 'present');
export const other = join(versions, 'other');

beforeAll(() => {
  for (const version of [present, other]) {
    mkdirSync(version);
    cpSync(dirname(commandPath), join(version, 'dist'), { recursive: true });
    cpSync(new URL('../../../package.json', import.meta.url).pathname, join(version, 'package.json'));
  }
  rewrite(other);
});
afterAll(() => rmSync(versions, { recursive: true }));

/** Of another version every chunk has another hash, and nothing answers to what the present one asks for. */
function rewrite(version: string): void {
  const dist = join(version, 'dist');
  const rename = (text: string): string =>
    text
      .replaceAll(/(?<=[\w)]-)([\w-]{8})(?=\.[cm]js\b)/g, (hash) => [...hash].reverse().join(''))
      .replaceAll(packageJson.version, '99.0.0');
  for (const name of readdirSync(dist).filter((each) => /\.[cm]js$/.test(each))) {
    const path = join(dist, name);
    if (name === 'transform-typescript.cjs') continue;
    writeFileSync(path, rename(readFileSync(path, 'latin1')), 'latin1');
    renameSync(path, join(dist, rename(name)));
  }
}

/** A root with the package in its own `node_modules`. */
export function makeSite(files: Readonly<Record<string, FileContent>>): string {
  const root = makeTemporaryRoot(files);
  mkdirSync(join(root, 'node_modules'));
  symlinkSync(
    new URL('../../../node_modules/better-sqlite3', import.meta.url).pathname,
    join(root, 'node_modules/better-sqlite3'),
  );
  install(root, present);
  return root;
}

/** Where that is. */
export const packageOf = (root: string): string => join(root, 'node_modules/folder-runner');

export function install(root: string, version: string): void {
  const dist = join(packageOf(root), 'dist');
  mkdirSync(dist, { recursive: true });
  linkSync(join(version, 'package.json'), join(packageOf(root), 'package.json'));
  for (const name of readdirSync(join(version, 'dist'))) linkSync(join(version, 'dist', name), join(dist, name));
}

/** As npm does it: what was there is moved away, and removed once the new one is there. */
export function replace(root: string): void {
  const old = join(root, 'node_modules/.folder-runner-old');
  renameSync(packageOf(root), old);
  install(root, other);
  rmSync(old, { recursive: true });
}

export function remove(root: string): void {
  rmSync(packageOf(root), { recursive: true });
}

/** The command of a site's own package, as its crontab calls it; with options of Node's, if any. */
export function callOwn(
  root: string,
  args: readonly string[],
  node = process.execPath,
  options: readonly string[] = [],
): Promise<Ended> {
  const env = { HOME: root, PATH: '/usr/bin:/bin', SHELL: '/bin/sh' };
  return startProcess(node, [...options, join(packageOf(root), 'dist/bin.cjs'), ...args], { cwd: root, env }).ended;
}

/** The file of a run's whole output, if there is more than is shown. */
export function isKept(root: string, file: string | null): boolean {
  return file !== null && readdirSync(stateFolderOf(root).output).includes(file);
}
