/**
 * @description Moves large or old log files aside, compresses them and keeps the newest.
 * @timeout 30m
 * @nice 10
 * @tags disk
 * @env ROTATE_FOLDER ROTATE_NAMES ROTATE_LARGER_THAN_MB ROTATE_OLDER_THAN_DAYS ROTATE_KEEP ROTATE_MODE
 *
 * Set by environment variables, in runner.config.js or in the crontab:
 *   ROTATE_FOLDER           the folder with the logs, as a full path: /home/me/logs
 *   ROTATE_NAMES            regular expression for their names (default \.log$|^error_log$)
 *   ROTATE_LARGER_THAN_MB   rotate from this size on (default 10)
 *   ROTATE_OLDER_THAN_DAYS  rotate after this many days, whatever the size (default 7)
 *   ROTATE_KEEP             how many compressed files are kept for each log (default 10)
 *   ROTATE_MODE             rename (default) or copy
 *
 * rename: the log becomes `error_log.20261231-235959`, which is compressed a day after the last line
 * was written to it, and not while a program has it open: no line is lost.
 * copy: for a program that keeps one log open for ever. The log is copied and then emptied; a line
 * written exactly between the two is lost.
 */
import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

const DAY_MS = 86_400_000;
const CHUNK_BYTES = 1024 * 1024;
const ROTATED_NAME = /^(.+)\.(\d{8}-\d{6})(\.gz)?$/;
const UNFINISHED_NAME = /\.\d{8}-\d{6}(\.gz)?\.part$/;

const names = new RegExp(process.env.ROTATE_NAMES || '\\.log$|^error_log$');
const largerThanBytes = numberFrom('ROTATE_LARGER_THAN_MB', 10) * 1e6;
const olderThanMs = numberFrom('ROTATE_OLDER_THAN_DAYS', 7) * DAY_MS;
const keep = Math.ceil(numberFrom('ROTATE_KEEP', 10));
const isCopyMode = copyModeFrom('ROTATE_MODE');
const now = Date.now();

const folder = process.env.ROTATE_FOLDER;
if (folder) await rotateFolder(folder);
else console.log('Nothing is rotated: set ROTATE_FOLDER to the full path of a folder with logs.');

async function rotateFolder(named: string): Promise<void> {
  if (!isAbsolute(named)) throw new Error(`ROTATE_FOLDER must be a full path, but is ${named}.`);
  const path = realpathSync.native(named);
  removeUnfinished(path);
  const done = {
    rotated: rotateDueLogs(path),
    compressed: await compressIdle(path),
    removed: removeSurplus(path),
  };
  console.log(`${path}: ${done.rotated} logs rotated, ${done.compressed} compressed, ${done.removed} removed`);
}

function rotateDueLogs(path: string): number {
  const due = filesIn(path).filter((name) => isLog(name) && isDue(path, name));
  for (const name of due) {
    const log = join(path, name);
    const target = `${log}.${timestamp(now)}`;
    if (existsSync(target)) throw new Error(`${target} is there already, so ${log} was left alone.`);
    if (isCopyMode) copyAndEmpty(log, target);
    else renameSync(log, target);
  }
  return due.length;
}

function isLog(name: string): boolean {
  return names.test(name) && !ROTATED_NAME.test(name);
}

function isDue(path: string, name: string): boolean {
  const stats = statSync(join(path, name));
  if (stats.size === 0) return false;
  return stats.size >= largerThanBytes || now - startOf(path, name, stats) >= olderThanMs;
}

/** When the log was begun: at its last rotation, else when its file was made. */
function startOf(path: string, name: string, stats: Stats): number {
  const last = rotatedOf(path, name).at(-1);
  if (last !== undefined) return parseTimestamp(last);
  // Some file systems do not know, and say 1970.
  return stats.birthtimeMs > 0 ? stats.birthtimeMs : now;
}

/** What was written during the copying is copied too, until there is no more to read. */
function copyAndEmpty(log: string, target: string): void {
  const unfinished = `${target}.part`;
  const from = openSync(log, 'r+');
  const to = openSync(unfinished, 'wx', modeOf(log));
  try {
    copyRest(from, to);
    fsyncSync(to);
    copyRest(from, to);
    renameSync(unfinished, target);
    ftruncateSync(from, 0);
  } finally {
    closeSync(from);
    closeSync(to);
  }
}

function copyRest(from: number, to: number): void {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let size = readSync(from, chunk); size > 0; size = readSync(from, chunk)) {
    for (let written = 0; written < size; ) written += writeSync(to, chunk, written, size - written);
  }
}

async function compressIdle(path: string): Promise<number> {
  let count = 0;
  for (const name of filesIn(path).filter((each) => ROTATED_NAME.test(each))) {
    const file = join(path, name);
    if (!name.endsWith('.gz') && !isInUse(file) && (await compress(file))) count += 1;
  }
  return count;
}

/** Whether lines may still be written to a log that was set aside. */
function isInUse(file: string): boolean {
  const stats = statSync(file);
  const isRecent = !isCopyMode && now - stats.mtimeMs < DAY_MS;
  return isRecent || isOpenSomewhere(stats);
}

/** Looks at what the own user's programs have open, where the host shows it. */
function isOpenSomewhere(file: Stats): boolean {
  const processes = namesIn('/proc').filter((name) => /^\d+$/.test(name));
  return processes.some((id) => {
    const descriptors = join('/proc', id, 'fd');
    return namesIn(descriptors).some((name) => isSameFile(join(descriptors, name), file));
  });
}

function isSameFile(path: string, file: Stats): boolean {
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    return stats?.ino === file.ino && stats.dev === file.dev;
  } catch {
    return false;
  }
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/** The original goes only when all of it is safely in the archive. */
async function compress(file: string): Promise<boolean> {
  const archive = `${file}.gz`;
  const unfinished = `${archive}.part`;
  const output = createWriteStream(unfinished, { mode: modeOf(file), flush: true });
  const input = createReadStream(file);
  await pipeline(input, createGzip(), output);
  if (statSync(file).size !== input.bytesRead) {
    rmSync(unfinished);
    return false;
  }
  renameSync(unfinished, archive);
  rmSync(file);
  return true;
}

function removeSurplus(path: string): number {
  const logs = new Set(filesIn(path).flatMap((name) => ROTATED_NAME.exec(name)?.[1] ?? []));
  const surplus = [...logs].filter(isLog).flatMap((name) => rotatedOf(path, name).slice(0, -keep));
  const removable = surplus.filter((name) => name.endsWith('.gz'));
  for (const name of removable) rmSync(join(path, name));
  return removable.length;
}

/** What a stopped run left behind; its log is still whole. */
function removeUnfinished(path: string): void {
  for (const name of filesIn(path).filter((each) => UNFINISHED_NAME.test(each))) {
    rmSync(join(path, name));
  }
}

/** The old ones of one log, the oldest first. */
function rotatedOf(path: string, log: string): string[] {
  return filesIn(path).filter((name) => ROTATED_NAME.exec(name)?.[1] === log);
}

/** Regular files only: a link could lead anywhere. */
function filesIn(path: string): string[] {
  return readdirSync(path)
    .filter((name) => lstatSync(join(path, name), { throwIfNoEntry: false })?.isFile())
    .sort();
}

function modeOf(file: string): number {
  return statSync(file).mode & 0o777;
}

/** UTC: 20261231-235959. */
function timestamp(time: number): string {
  return new Date(time).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
}

function parseTimestamp(rotatedName: string): number {
  const [, , stamp = ''] = ROTATED_NAME.exec(rotatedName) ?? [];
  const iso = stamp.replace(/^(....)(..)(..)-(..)(..)(..)$/, '$1-$2-$3T$4:$5:$6Z');
  return Date.parse(iso);
}

function copyModeFrom(name: string): boolean {
  const mode = process.env[name] || 'rename';
  if (mode === 'rename' || mode === 'copy') return mode === 'copy';
  throw new Error(`${name} must be rename or copy, but is ${JSON.stringify(mode)}.`);
}

function numberFrom(name: string, otherwise: number): number {
  const text = process.env[name];
  if (!text) return otherwise;
  const number = Number(text);
  if (number > 0) return number;
  throw new Error(`${name} must be a number above 0, but is ${JSON.stringify(text)}.`);
}
