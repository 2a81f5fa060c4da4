import {
  accessSync,
  chmodSync,
  constants,
  copyFileSync,
  lstatSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

/** Where everything lives that the runner itself writes: `<root>/.runner/`. */
export interface StateFolder {
  readonly path: string;
  readonly database: string;
  readonly locks: string;
  /** Output of running scripts, and compressed output too long for the log. */
  readonly output: string;
  /** What a child's probe leaves behind at its end. */
  readonly results: string;
  readonly cache: string;
  /** One temporary folder for each running script. */
  readonly temporary: string;
  /** Records of runs that the log could not take. */
  readonly spool: string;
  /** A file that is given up on a full disk, to make room for the last records. */
  readonly reserve: string;
  /** An import of the crontab that is under way, or was interrupted. */
  readonly unsettledImport: string;
  /** Names the database server, where the log is on one. */
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

/** The folders that a pass writes in; the first one holds the others. */
export function listStateFolders(state: StateFolder): readonly string[] {
  const { path, locks, output, results, cache, temporary, spool } = state;
  return [path, locks, output, results, cache, temporary, spool];
}

/** Modes are explicit: under cron's umask 000 other users could read what scripts print. */
export function createStateFolder(state: StateFolder): void {
  const made = makeFolder(state.path);
  // What a link leads to may serve something else, and keeps its modes.
  const isLink = lstatSync(state.path).isSymbolicLink();
  for (const path of listStateFolders(state)) {
    if (path !== state.path) makeFolder(path);
    if (!isLink) makePrivate(path);
  }
  // It ignores itself, so that nobody's own `.gitignore` needs to be changed.
  if (made) writeFileSync(join(state.path, '.gitignore'), '*\n', { mode: 0o600 });
}

/** @returns whether it was missing */
function makeFolder(path: string): boolean {
  return mkdirSync(path, { recursive: true, mode: 0o700 }) !== undefined;
}

/** Where each run has files of its own. @throws what the system says where this user cannot make them */
export function demandRunFolders({ locks, output, results, temporary }: StateFolder): void {
  for (const path of [locks, output, results, temporary]) demandAccess(path);
}

/** @throws what the system says of a folder that is another user's, or whose mode shuts this one out */
export function demandAccess(path: string): void {
  accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
}

/** One that was copied, made by hand, or made under a umask that shuts out its owner, too. */
function makePrivate(path: string): void {
  const stats = lstatSync(path);
  const isOpen = stats.isDirectory() && (stats.mode & 0o777) !== 0o700;
  if (isOpen && stats.uid === process.getuid?.()) chmodSync(path, 0o700);
}

/** `12.3.log.gz`: how the file of a long output is named. */
const keptOutputForm = /^[\w-]+(?:\.\d+)?\.log\.gz$/;

export function isKeptOutputName(name: string): boolean {
  return keptOutputForm.test(name);
}

/**
 * The place of a kept output file. Its name comes from a log that others may write to: one of any other form, such as
 * `../../.ssh/authorized_keys`, is none of a file here, and null.
 */
export function keptOutputPath({ output }: StateFolder, name: string): string | null {
  return isKeptOutputName(name) ? join(output, name) : null;
}

/**
 * Removes kept output once its runs are in the log no more: a file without its row is clutter, a row
 * without its file is a lie. What cannot be removed is no more than clutter and keeps nobody from going on.
 */
export function removeOutput(state: StateFolder, files: readonly string[]): void {
  for (const path of files.flatMap((file) => keptOutputPath(state, file) ?? [])) {
    try {
      rmSync(path, { force: true });
    } catch {}
  }
}

/**
 * Brings a kept output file to where a log looks for it. Whoever was interrupted in the middle of it, or
 * does the same in the same moment, changes nothing about the result.
 *
 * @returns whether it is there now
 */
export function moveOutput(name: string, from: StateFolder, to: StateFolder): boolean {
  const source = keptOutputPath(from, name);
  const target = keptOutputPath(to, name);
  if (source === null || target === null) return false;
  if (from.path !== to.path) moveFile(source, target);
  return statSync(target, { throwIfNoEntry: false })?.isFile() === true;
}

/** A source that is gone has been moved before, by whoever was interrupted, or is lost. */
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

/** To another file system: whole, or not at all. */
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
