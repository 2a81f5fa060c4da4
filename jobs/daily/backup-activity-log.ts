/**
 * @description Backs up the activity log while the runner goes on writing to it, and checks the copy.
 * @timeout 15m
 * @nice 10
 * @tags backup
 * @env BACKUP_FOLDER BACKUP_KEEP
 *
 * Set by environment variables, in runner.config.js or in the crontab:
 *   BACKUP_FOLDER  the folder for the copies (default: .runner/backups in the root)
 *   BACKUP_KEEP    how many copies are kept (default 7)
 *
 * SQLite's own backup is used: a plain copy of the file would miss the contents of its journal.
 */
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Long enough for a writer on a slow disk to finish. */
const BUSY_TIMEOUT_MS = 30_000;
const ALL_PAGES = 2 ** 31 - 1;
const COPY_NAME = /^activity-\d{8}-\d{6}\.db$/;

const root = process.env.RUNNER_ROOT || process.cwd();
const log = join(root, '.runner', 'activity.db');
const folder = resolve(root, process.env.BACKUP_FOLDER || join('.runner', 'backups'));
const keep = countFrom('BACKUP_KEEP', 7);

if (existsSync(log)) await backUp();
else console.log(`Nothing to back up: there is no activity log at ${log} yet.`);

async function backUp(): Promise<void> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `activity-${timestamp()}.db`);
  const unfinished = `${path}.part`;
  try {
    // Made first, as SQLite would make it readable for others under cron's umask.
    closeSync(openSync(unfinished, 'w', 0o600));
    await copyLog(unfinished);
    renameSync(unfinished, path);
  } finally {
    for (const suffix of ['', '-journal', '-wal', '-shm']) rmSync(unfinished + suffix, { force: true });
  }
  const removed = removeOldCopies();
  const megabytes = (statSync(path).size / 1e6).toFixed(1);
  console.log(`Backed up ${log} to ${path} (${megabytes} MB); ${removed} old copies removed`);
}

async function copyLog(target: string): Promise<void> {
  const { backup, DatabaseSync } = await loadSqlite();
  const source = new DatabaseSync(log, { timeout: BUSY_TIMEOUT_MS });
  try {
    // All pages in one step: in smaller ones each write of the runner would start it afresh.
    await backup(source, target, { rate: ALL_PAGES });
  } finally {
    source.close();
  }
  const copy = new DatabaseSync(target);
  try {
    // One file that stands alone, without the journal files of the original.
    copy.exec('pragma journal_mode = delete');
    const [result] = Object.values(copy.prepare('pragma integrity_check').get() ?? {});
    if (result !== 'ok') throw new Error(`The copy of ${log} is damaged: ${result}.`);
  } finally {
    copy.close();
  }
}

/** Node 22 calls `node:sqlite` experimental, on stderr, whenever it is loaded. */
async function loadSqlite(): Promise<typeof import('node:sqlite')> {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return await import('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** The names sort by time; files with other names are somebody else's. */
function removeOldCopies(): number {
  const copies = readdirSync(folder)
    .filter((name) => COPY_NAME.test(name))
    .sort();
  const old = copies.slice(0, Math.max(0, copies.length - keep));
  for (const name of old) rmSync(join(folder, name));
  return old.length;
}

/** UTC, so that the order of the names is the order of the copies: 20261231-235959. */
function timestamp(): string {
  return new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
}

function countFrom(name: string, otherwise: number): number {
  const text = process.env[name];
  if (!text) return otherwise;
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new Error(`${name} must be a whole number above 0, but is ${JSON.stringify(text)}.`);
}
