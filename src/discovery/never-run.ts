import { closeSync, constants, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { basename, join, relative, sep } from 'node:path';
import { compareBytes, shellWord } from '../system/base/values.ts';
import { reasonToIgnore } from './jobs-folder.ts';
import { fileName } from './place.ts';
import type { Ignored } from './script.ts';

/** A file with a `#!` line, which was written to be run, but which nothing runs. */
export interface NeverRun {
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
  try {
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).slice(0, MOST_ENTRIES);
    const wanted = names.filter((name) => name.split(sep).every((part) => reasonToIgnore(part) === null));
    return wanted
      .toSorted(compareBytes)
      .map((name) => join(folder, name))
      .filter(hasShebang);
  } catch {
    return [];
  }
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
