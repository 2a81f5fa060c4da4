/**
 * @description Removes old files from a folder of temporary files.
 * @timeout 15m
 * @nice 10
 * @tags disk
 * @env CLEAN_FOLDER CLEAN_OLDER_THAN_DAYS CLEAN_DRY_RUN
 *
 * Set by environment variables, in runner.config.js or in the crontab:
 *   CLEAN_FOLDER           the folder, as a full path: /home/me/tmp
 *   CLEAN_OLDER_THAN_DAYS  how many days a file must be unchanged (default 7)
 *   CLEAN_DRY_RUN          1: only list the files that would be removed
 *
 * Only regular files of your own user are removed; symbolic links are neither followed nor removed, and
 * folders stay. A folder that holds more than temporary files is refused.
 */
import { lstatSync, readdirSync, realpathSync, type Stats, unlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, isAbsolute, join, sep } from 'node:path';

const DAY_MS = 86_400_000;
const SYSTEM_FOLDERS = ['bin', 'boot', 'dev', 'etc', 'lib', 'lib64', 'proc', 'sbin', 'sys', 'usr'];
const WEB_ROOTS = ['public_html', 'www', 'htdocs', 'httpdocs'];

const isDryRun = process.env.CLEAN_DRY_RUN === '1';
const root = process.env.RUNNER_ROOT ?? process.cwd();
const ownUser = process.getuid?.();

const folder = process.env.CLEAN_FOLDER;
if (folder) cleanFolder(folder, daysFrom('CLEAN_OLDER_THAN_DAYS', 7));
else console.log('Nothing is cleaned: set CLEAN_FOLDER to the full path of a temporary folder.');

function cleanFolder(named: string, days: number): void {
  if (!isAbsolute(named)) throw new Error(`CLEAN_FOLDER must be a full path, but is ${named}.`);
  const target = realpathSync.native(named);
  const danger = dangerOf(target);
  if (danger !== null) throw new Error(`CLEAN_FOLDER names ${target}, which ${danger}: refused.`);

  const before = Date.now() - days * DAY_MS;
  let count = 0;
  let bytes = 0;
  for (const { path, stats } of ownFiles(target)) {
    if (stats.mtimeMs < before && removeFile(path)) {
      count += 1;
      bytes += stats.size;
    }
  }
  const megabytes = (bytes / 1e6).toFixed(1);
  const done = isDryRun ? 'Would remove' : 'Removed';
  console.log(`${done} ${count} files (${megabytes} MB) older than ${days} days from ${target}`);
}

/** Why the folder must not be cleaned, or null. */
function dangerOf(target: string): string | null {
  const top = target.split(sep)[1] ?? '';
  if (top === '' || SYSTEM_FOLDERS.includes(top)) return 'belongs to the system';
  if (contains(target, realpathSync.native(homedir()))) return 'holds your home folder';
  if (contains(target, realpathSync.native(root))) return 'holds your jobs and their log';
  for (const name of ['jobs', '.runner']) {
    if (contains(join(realpathSync.native(root), name), target)) return `is part of ${name}`;
  }
  if (WEB_ROOTS.includes(basename(target))) return 'holds a whole web site';
  return null;
}

function contains(outer: string, inner: string): boolean {
  return inner === outer || inner.startsWith(`${outer}${sep}`);
}

/**
 * Another user's folder is not entered: in a shared /tmp its owner could put a link in its place
 * while it is being read, and your own files would be removed.
 */
function* ownFiles(path: string): Generator<{ path: string; stats: Stats }> {
  for (const name of namesIn(path)) {
    const child = join(path, name);
    const stats = lstatSync(child, { throwIfNoEntry: false });
    if (stats === undefined || (ownUser !== undefined && stats.uid !== ownUser)) continue;
    if (stats.isDirectory()) yield* ownFiles(child);
    if (stats.isFile()) yield { path: child, stats };
  }
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (error) {
    if (!isGone(error)) report(error);
    return [];
  }
}

function removeFile(path: string): boolean {
  if (isDryRun) {
    console.log(path);
    return true;
  }
  try {
    unlinkSync(path);
    return true;
  } catch (error) {
    if (!isGone(error)) report(error);
    return false;
  }
}

function isGone(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

/** What cannot be removed makes the run fail, but does not keep the rest from being removed. */
function report(error: unknown): void {
  console.error((error as Error).message);
  process.exitCode = 1;
}

function daysFrom(name: string, otherwise: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  const days = Number(text);
  if (days > 0) return days;
  throw new Error(`${name} must be a number of days above 0, but is ${JSON.stringify(text)}.`);
}
