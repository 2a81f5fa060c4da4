import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';

/** The folder of all that the runner itself writes: `<root>/.runner/`. */
export interface StateFolder {
  readonly path: string;
  readonly database: string;
  readonly locks: string;
  /** Output of running scripts, and compressed output that is too long for the log. */
  readonly output: string;
  /** Files that the probe in a child leaves at its end. */
  readonly results: string;
  readonly cache: string;
  /** One temporary folder per running script. */
  readonly temporary: string;
  /** Records of runs that the log could not take. */
  readonly spool: string;
  /** A file that is removed when the disk is full, to make room for the last records. */
  readonly reserve: string;
  /** Marks an import of the crontab that is under way or was interrupted. */
  readonly unsettledImport: string;
  /** The environment that names the database server, if the log is on one. */
  readonly env: NodeJS.ProcessEnv;
}

export function stateFolderOf(root: string, env?: NodeJS.ProcessEnv): StateFolder {
  return stateFolderAt(join(root, '.runner'), env);
}

export function stateFolderAt(path: string, env: NodeJS.ProcessEnv = process.env): StateFolder {
  return {
    path,
    env,
    database: join(path, 'activity.db'),
    locks: join(path, 'locks'),
    output: join(path, 'output'),
    results: join(path, 'results'),
    cache: join(path, 'cache'),
    temporary: join(path, 'tmp'),
    spool: join(path, 'spool'),
    reserve: join(path, 'reserve'),
    unsettledImport: join(path, 'unsettled-import'),
  };
}

/** The folders that a pass writes to; the first one contains the others. */
export function listStateFolders(state: StateFolder): readonly string[] {
  const { path, locks, output, results, cache, temporary, spool } = state;
  return [path, locks, output, results, cache, temporary, spool];
}

/** Sets modes explicitly: under cron's umask 000 other users could read what scripts print. */
export function createStateFolder(state: StateFolder): void {
  const made = makeFolder(state.path);
  // The target of a link may serve another purpose, so it keeps its modes.
  const isLink = lstatSync(state.path).isSymbolicLink();
  for (const path of listStateFolders(state)) {
    if (path !== state.path) makeFolder(path);
    if (!isLink) makePrivate(path);
  }
  // The folder ignores itself, so that nobody has to change a `.gitignore`.
  if (made) writeFileSync(join(state.path, '.gitignore'), '*\n', { mode: 0o600 });
}

/** @returns true if the folder was missing */
function makeFolder(path: string): boolean {
  return mkdirSync(path, { recursive: true, mode: 0o700 }) !== undefined;
}

/** @throws the system's error if this user cannot create the files of a run in its folders */
export function demandRunFolders({ locks, output, results, temporary }: StateFolder): void {
  for (const path of [locks, output, results, temporary]) demandAccess(path);
}

/** @throws the system's error if the folder belongs to another user, or its mode excludes this one */
export function demandAccess(path: string): void {
  accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
}

/** Closes a folder that was copied, made by hand, or made under a umask that excludes its owner, too. */
function makePrivate(path: string): void {
  const stats = lstatSync(path);
  const isOpen = stats.isDirectory() && (stats.mode & 0o777) !== 0o700;
  if (isOpen && stats.uid === process.getuid?.()) chmodSync(path, 0o700);
}

/** `12.3.log.gz`: the name of a file with a long output. */
const keptOutputForm = /^[\w-]+(?:\.\d+)?\.log\.gz$/;

export function isKeptOutputName(name: string): boolean {
  return keptOutputForm.test(name);
}

/**
 * The path of a kept output file. Its name comes from a log that others may write to: a name of another form, such as
 * `../../.ssh/authorized_keys`, is refused with null.
 */
export function keptOutputPath({ output }: StateFolder, name: string): string | null {
  return isKeptOutputName(name) ? join(output, name) : null;
}

/**
 * Removes kept output after its runs are gone from the log: a file without its row is clutter, a row without its file
 * is a lie. A file that cannot be removed is mere clutter and stops nobody.
 */
export function removeOutput(state: StateFolder, files: readonly string[]): void {
  for (const path of files.flatMap((file) => keptOutputPath(state, file) ?? [])) {
    try {
      rmSync(path, { force: true });
    } catch {
      // It is mere clutter.
    }
  }
}

/**
 * Moves a kept output file to the place where a log looks for it. An interruption, or another process that does the
 * same at this moment, does not change the result.
 *
 * @returns whether the file is there now
 */
export function moveOutput(name: string, from: StateFolder, to: StateFolder): boolean {
  const source = keptOutputPath(from, name);
  const target = keptOutputPath(to, name);
  if (source === null || target === null) return false;
  if (from.path !== to.path) moveFile(source, target);
  return statSync(target, { throwIfNoEntry: false })?.isFile() === true;
}

/** A source that is gone was moved before an interruption, or is lost. */
function moveFile(source: string, target: string): void {
  try {
    rename(source, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

function rename(source: string, target: string): void {
  try {
    renameSync(source, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
    copyFile(source, target);
  }
}

/** Copies to another file system: the whole file or nothing. */
function copyFile(source: string, target: string): void {
  const temporary = `${target}.${process.pid}`;
  try {
    copyFileSync(source, temporary);
    renameSync(temporary, target);
  } finally {
    rmSync(temporary, { force: true });
  }
  unlinkSync(source);
}

/** Enough for the last records of a pass, in the log and beside it. */
const RESERVE_BYTES = 256 * 1024;

/** Has a file ready that can be given up when the disk is full. Never throws: it is there if it can be. */
export function keepReserve({ reserve }: StateFolder): void {
  try {
    const found = lstatSync(reserve, { throwIfNoEntry: false });
    if (found?.isFile() && found.size === RESERVE_BYTES) return;
    // Opening a named pipe would wait for a reader, and a link may lead to anything.
    if (found?.isFile() === false) rmSync(reserve);
    fill(reserve);
  } catch {
    remove(reserve);
  }
}

/** Gives up the reserve; false: there was none. Never throws. */
export function releaseReserve({ reserve }: StateFolder): boolean {
  try {
    if (lstatSync(reserve, { throwIfNoEntry: false }) === undefined) return false;
    rmSync(reserve);
    return true;
  } catch {
    return false;
  }
}

/** With bytes that a file system can neither leave out nor compress; a file of zeros may take no room. */
function fill(path: string): void {
  const bytes = incompressible(RESERVE_BYTES);
  const fd = openSync(path, 'w', 0o600);
  try {
    for (let written = 0; written < RESERVE_BYTES; ) written += writeSync(fd, bytes, written);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Not from `node:crypto`, which a start would wait for. */
function incompressible(count: number): Uint8Array {
  const words = new Uint32Array(count / 4);
  for (let index = 0; index < words.length; index += 1) words[index] = Math.random() * 2 ** 32;
  return new Uint8Array(words.buffer);
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // The next pass tries again.
  }
}
