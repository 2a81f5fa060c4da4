/**
 * @description Adds up the disk space of each folder and fails when your quota is nearly used up.
 * @timeout 30m
 * @nice 10
 * @tags disk
 * @env DISK_FOLDER DISK_QUOTA DISK_WARN_PERCENT
 *
 * Set by environment variables, in runner.config.js or in the crontab:
 *   DISK_FOLDER        the folder to measure (default: the root)
 *   DISK_QUOTA         the quota of your host: 500mb, 10gb, 1tb (default: nothing is compared)
 *   DISK_WARN_PERCENT  the percentage of the quota at which the run fails (default 90)
 */
import { lstatSync, readdirSync, realpathSync, type Stats } from 'node:fs';
import { join } from 'node:path';

const BLOCK_BYTES = 512;
const SHOWN_FOLDERS = 10;
const UNITS: Readonly<Record<string, number>> = {
  kb: 1024,
  mb: 1024 ** 2,
  gb: 1024 ** 3,
  tb: 1024 ** 4,
};

const folder = realpathSync.native(process.env.DISK_FOLDER || process.env.RUNNER_ROOT || '.');
const quotaBytes = bytesFrom('DISK_QUOTA');
const warnPercent = percentFrom('DISK_WARN_PERCENT', 90);

const device = lstatSync(folder).dev;
const seenLinks = new Set<number>();
let unreadable = 0;

const uses = measureEach(folder);
const totalBytes = uses.reduce((sum, use) => sum + use.bytes, 0);
for (const use of uses.slice(0, SHOWN_FOLDERS)) {
  console.log(`${formatBytes(use.bytes).padStart(10)}  ${use.name}`);
}
console.log(`${formatBytes(totalBytes).padStart(10)}  in all, in ${folder}`);
if (unreadable > 0) console.log(`${unreadable} folders could not be read and are not counted.`);
compareWithQuota(totalBytes);

/** What is directly in the folder, the largest first. */
function measureEach(path: string): { name: string; bytes: number }[] {
  const own = { name: '.', bytes: lstatSync(path).blocks * BLOCK_BYTES };
  const children = readdirSync(path).map((name) => ({ name, bytes: measure(join(path, name)) }));
  return [own, ...children].sort((a, b) => b.bytes - a.bytes);
}

/** The space that a file or folder takes on the disk; links and other disks are not followed. */
function measure(path: string): number {
  let bytes = 0;
  const waiting = [path];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const stats = lstatSync(next, { throwIfNoEntry: false });
    if (stats === undefined || stats.dev !== device || isCounted(stats)) continue;
    bytes += stats.blocks * BLOCK_BYTES;
    if (stats.isDirectory()) waiting.push(...childrenOf(next));
  }
  return bytes;
}

/** A file with several names takes its space once. */
function isCounted(stats: Stats): boolean {
  if (stats.isDirectory() || stats.nlink === 1) return false;
  if (seenLinks.has(stats.ino)) return true;
  seenLinks.add(stats.ino);
  return false;
}

function childrenOf(path: string): string[] {
  try {
    return readdirSync(path).map((name) => join(path, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') unreadable += 1;
    return [];
  }
}

function compareWithQuota(bytes: number): void {
  if (quotaBytes === null) {
    console.log('To be warned in time, set DISK_QUOTA to what your host gives you, such as 10gb.');
    return;
  }
  const percent = (bytes / quotaBytes) * 100;
  const summary = `${formatBytes(bytes)} of ${formatBytes(quotaBytes)} used, ${percent.toFixed(1)} %`;
  if (percent < warnPercent) {
    console.log(summary);
    return;
  }
  const largest = uses[0] === undefined ? '' : `; the largest folder is ${uses[0].name}`;
  throw new Error(`${summary}: at or above the ${warnPercent} % of DISK_WARN_PERCENT${largest}.`);
}

function formatBytes(bytes: number): string {
  const unit = ['tb', 'gb', 'mb'].find((name) => bytes >= (UNITS[name] ?? 1)) ?? 'kb';
  return `${(bytes / (UNITS[unit] ?? 1)).toFixed(1)} ${unit.toUpperCase()}`;
}

function bytesFrom(name: string): number | null {
  const text = process.env[name];
  if (!text) return null;
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*([kmgt]b)$/i.exec(text.trim()) ?? [];
  const bytes = Number(number) * (UNITS[unit?.toLowerCase() ?? ''] ?? Number.NaN);
  if (bytes > 0) return bytes;
  throw new Error(`${name} must be a size such as 500mb or 10gb, but is ${JSON.stringify(text)}.`);
}

function percentFrom(name: string, otherwise: number): number {
  const text = process.env[name];
  if (!text) return otherwise;
  const percent = Number(text);
  if (percent > 0 && percent <= 100) return percent;
  throw new Error(`${name} must be a number from 1 to 100, but is ${JSON.stringify(text)}.`);
}
