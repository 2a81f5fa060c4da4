import { closeSync, constants, existsSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { basename, dirname, extname, join, relative, sep } from 'node:path';
import { compareBytes, printableName, shellWord } from '../system/base/values.ts';
import { fileName, QUEUE_TIER, reasonToIgnore, tierNames } from './jobs-folder.ts';
import type { Ignored } from './script.ts';
import { isExecutableFile, isScriptExtension } from './script-file.ts';

/** The ending of a file, or of a script's folder, that must not run. */
export const DISABLED = '.disabled';

/** A script or handler that `runner disable` has renamed: `clean-tmp.sh.disabled`. */
export interface DisabledScript {
  /** Its name once it is enabled: `hourly/clean-tmp`. */
  readonly name: string;
  readonly tier: string;
  /** Absolute, with the ending. */
  readonly path: string;
}

/**
 * The disabled scripts of all tiers, then the disabled handlers, each in the order of their names.
 *
 * @throws {UsageError} if `jobs/` cannot be read
 */
export function findDisabled(root: string): readonly DisabledScript[] {
  return [...tierNames(root), QUEUE_TIER].flatMap((tier) => {
    const folder = join(root, 'jobs', tier);
    return namesIn(folder, tier === QUEUE_TIER)
      .filter((file) => file.endsWith(DISABLED) && isScriptOnceEnabled(folder, file))
      .toSorted(compareBytes)
      .map((file) => ({ name: nameOf(tier, file), tier, path: join(folder, file) }));
  });
}

/** Discovery reports a folder that cannot be read. */
function namesIn(folder: string, isDeep = false): readonly string[] {
  try {
    return readdirSync(folder, { recursive: isDeep, encoding: 'utf8' });
  } catch {
    return [];
  }
}

/** False if the enabled script exists as well, perhaps after a deploy. */
function isScriptOnceEnabled(folder: string, file: string): boolean {
  const enabled = withoutEnding(file);
  if (enabled.split('/').some((part) => part === '' || reasonToIgnore(part) !== null)) return false;
  if (existsSync(join(folder, enabled))) return false;
  const path = join(folder, file);
  return isScriptExtension(extname(enabled)) || isExecutableFile(path) || hasIndex(path);
}

function hasIndex(path: string): boolean {
  return namesIn(path).some((name) => name.startsWith('index.'));
}

function nameOf(tier: string, file: string): string {
  const enabled = withoutEnding(file);
  return `${tier}/${printableName(join(dirname(enabled), basename(enabled, extname(enabled))))}`;
}

function withoutEnding(file: string): string {
  return file.slice(0, -DISABLED.length);
}

/** A file with a `#!` line, which was written to be run, but which nothing runs. */
interface NeverRun {
  /** Its name in messages. */
  readonly file: string;
  /** The command that makes it run: `chmod +x jobs/hourly/backup`. */
  readonly cure: string;
}

/** More would hide the rest. */
const MOST_ENTRIES = 1_000;

/** Finds such files among ignored files, and in folders of tiers that are no scripts. */
export function findNeverRun(root: string, ignored: readonly Ignored[]): readonly NeverRun[] {
  return ignored.flatMap(({ path, isPlainFolder, chmod }) => {
    if (chmod !== undefined) return [{ file: fileName({ root }, path), cure: chmod }];
    if (!isPlainFolder) return [];
    return listScripts(path).map((file) => ({ file: fileName({ root }, file), cure: describeMove(root, file) }));
  });
}

function describeMove(root: string, file: string): string {
  const [jobs = '', tier = ''] = relative(root, file).split(sep);
  return `mv ${shellWord(fileName({ root }, file))} ${shellWord(`${jobs}/${tier}/${basename(file)}`)}`;
}

function listScripts(folder: string): readonly string[] {
  return namesIn(folder, true)
    .slice(0, MOST_ENTRIES)
    .filter((name) => name.split(sep).every((part) => reasonToIgnore(part) === null))
    .toSorted(compareBytes)
    .map((name) => join(folder, name))
    .filter(hasShebang);
}

/** Without `O_NONBLOCK` a named pipe would block the call for ever. */
function hasShebang(path: string): boolean {
  let file: number | null = null;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const head = Buffer.alloc(2);
    return fstatSync(file).isFile() && readSync(file, head) === 2 && head.toString('latin1') === '#!';
  } catch {
    return false;
  } finally {
    if (file !== null) closeSync(file);
  }
}

const MOST_NAMED = 3;

/** "2 files with a #! line never run: jobs/hourly/backup, jobs/hourly/sub/db.sh" */
export function describeNeverRun(found: readonly NeverRun[]): string {
  const [count, verb] = found.length === 1 ? ['1 file', 'runs'] : [`${found.length} files`, 'run'];
  const more = found.length > MOST_NAMED ? ` and ${found.length - MOST_NAMED} more` : '';
  const names = found.slice(0, MOST_NAMED).map(({ file }) => file);
  return `${count} with a #! line never ${verb}: ${names.join(', ')}${more}`;
}

/** The commands that make the first ones run. */
export function describeCures(found: readonly NeverRun[]): string {
  const commands = found.slice(0, MOST_NAMED).map(({ cure }) => `\`${cure}\``);
  return `${commands.join(', ')}; \`npx folder-runner list\` shows each ignored file.`;
}
