import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { UsageError } from '../../system/base/errors.ts';
import { replaceFile } from '../../system/base/plain-file.ts';
import { readIfThere } from '../../system/base/values.ts';
import { findOwnNode, isExecutable } from '../../system/process/programs.ts';
import { findAccount } from '../../system/process/user.ts';
import { variableAtBlock } from './block.ts';
import { readLineOf } from './lines.ts';
import { crontabWord, SCRIPT_NAMES } from './own-line.ts';
import { type CrontabChange, readCrontab, removeFromCrontab } from './program.ts';

/** The file that the lines of a crontab call, one for all roots of a user. */
export interface CronScript {
  readonly path: string;
  /** As the lines write it. */
  readonly written: string;
}

const [IN_HOME, IN_ROOT] = SCRIPT_NAMES;

/** In the user's home, as it has to tell when a root or its `.runner/` is gone. In that where nobody can write there. */
export function placeScript(root: string, env: NodeJS.ProcessEnv, crontab: Buffer): CronScript {
  const home = homeOf(env);
  if (!isUsable(home)) return scriptAt(join(root, IN_ROOT));
  // Cron knows a home by the user's entry alone, and a crontab may set another one.
  const isOfCron = home === findAccount()?.HOME && variableAtBlock(crontab, root, 'HOME') === undefined;
  const path = join(home, IN_HOME);
  return isOfCron ? { path, written: `~/${IN_HOME}` } : scriptAt(path);
}

function scriptAt(path: string): CronScript {
  return { path, written: crontabWord(path) };
}

function homeOf({ HOME }: NodeJS.ProcessEnv): string {
  return HOME !== undefined && isAbsolute(HOME) ? HOME : (findAccount()?.HOME ?? '/');
}

/** `/var/www` is the home of a web server's user, who can make no file there. */
function isUsable(home: string): boolean {
  const stats = statSync(home, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isDirectory() || stats.uid !== process.geteuid?.()) return false;
  try {
    accessSync(home, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The paths that the script keeps for a root. */
interface KnownPaths {
  readonly node: string;
  readonly command: string;
}

/** The package that runs now. */
export interface OwnPackage {
  readonly distFolder: string;
  readonly version: string;
}

/**
 * Puts the script where the lines look for it, with the Node and the command that run now. One of a newer version stays:
 * other roots may need it, and it understands the lines of all versions.
 */
export function writeCronScript({ path }: CronScript, root: string, own: OwnPackage): void {
  try {
    mkdirSync(notesOf(path, root), { recursive: true, mode: 0o700 });
    bringUpToDate(path, own);
    writePaths(path, root, { node: findOwnNode(), command: join(own.distFolder, 'bin.cjs') });
  } catch (error) {
    throw new UsageError(
      `${path}, which the lines need, cannot be written (${(error as Error).message}): make room for it, ` +
        'then try again.',
    );
  }
}

/**
 * The same by a pass that the script has called: it has found another Node or package than it knew, or is of another
 * version. A pass is not kept from its work by what goes wrong here.
 */
export function refreshScript(path: string, root: string, own: OwnPackage): void {
  try {
    bringUpToDate(path, own);
    const { node, command } = readPaths(path, root);
    writePaths(path, root, {
      node: isExecutable(node) ? node : findOwnNode(),
      command: existsSync(command) ? command : join(own.distFolder, 'bin.cjs'),
    });
  } catch {}
}

function bringUpToDate(path: string, { distFolder, version }: OwnPackage): void {
  const there = readIfThere(path);
  const text = readFileSync(join(distFolder, 'cron.sh'), 'utf8').replaceAll('@VERSION@', version);
  const isNewer = compareVersions(versionOf(there) ?? '', version) > 0;
  if (there !== text && !isNewer) replacePrivately(path, text);
}

/** Whether it is the script of any version, and nobody else's file: then it may be called to see whether it works. */
export function isOwnScript(path: string): boolean {
  return versionOf(readIfThere(path)) !== null;
}

function versionOf(text: string): string | null {
  return /^# folder-runner (\d+\.\d+\.\d+\S*): /.exec(text)?.[1] ?? null;
}

/** Compares only the part before a hyphen. */
function compareVersions(one: string, other: string): number {
  const [a, b] = [one, other].map((version) => version.split('-')[0]?.split('.').map(Number) ?? []);
  const differs = [0, 1, 2].find((index) => a?.[index] !== b?.[index]);
  return differs === undefined ? 0 : (a?.[differs] ?? 0) - (b?.[differs] ?? 0);
}

/** The folder of the script's notes on a root. It is outside the root, so removing the root does not remove it. */
function notesOf(path: string, root: string): string {
  return join(dirname(path), 'roots', root);
}

function pathsFile(path: string, root: string): string {
  return join(notesOf(path, root), 'paths');
}

function readPaths(path: string, root: string): KnownPaths {
  const [node = '', command = ''] = readIfThere(pathsFile(path, root)).split('\n');
  return { node, command };
}

function writePaths(path: string, root: string, { node, command }: KnownPaths): void {
  const text = `${node}\n${command}\n`;
  if (readIfThere(pathsFile(path, root)) !== text) replacePrivately(pathsFile(path, root), text);
}

function replacePrivately(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  replaceFile(path, text, 0o600);
}

/** Removes the notes on a root whose lines are gone; with the last root also the script. */
export function forgetRoot({ path }: CronScript, root: string): void {
  const notes = notesOf(path, root);
  for (const name of ['paths', 'told', 'began']) rmSync(join(notes, name), { force: true });
  // Up to the folder that holds them all; other roots may lie in this one, or beside it.
  const end = dirname(path);
  for (let folder = notes; folder !== end; folder = dirname(folder)) if (!removeIfEmpty(folder)) return;
  rmSync(path, { force: true });
  removeIfEmpty(end);
}

/** @returns whether the folder is gone */
export function removeIfEmpty(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return !existsSync(folder);
  }
}

/** Takes the block of a root out of the user's crontab, with what the script knows of it unless other lines call it. */
export function removeLinesOf(root: string, env: NodeJS.ProcessEnv): CrontabChange {
  const change = removeFromCrontab(root, env);
  if (change === 'changed') forgetUncalled(root, env);
  return change;
}

/** Takes back what the script knows of a root that no line calls any more; with the last one the script itself. */
export function forgetUncalled(root: string, env: NodeJS.ProcessEnv): void {
  const left = readCrontab(env);
  const isCalled = left
    .toString()
    .split('\n')
    .some((line) => readLineOf(root, line) !== null);
  if (!isCalled) forgetRoot(placeScript(root, env, left), root);
}
