import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const wanted = join(import.meta.dirname, 'peers');

/**
 * Other people's queues, installed into a cache folder when they are first needed, without running
 * any script of theirs: what then lacks a binary is left out. Null where that fails.
 */
export function installPeers(): string | null {
  const folder = join(cacheFolder(), hashOf(join(wanted, 'package-lock.json')));
  if (existsSync(folder)) return folder;
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) {
    copyFileSync(join(wanted, file), join(unfinished, file));
  }
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error'];
  const { status, stderr } = spawnSync('npm', args, { cwd: unfinished, encoding: 'utf8' });
  if (status === 0) {
    renameSync(unfinished, folder);
    return folder;
  }
  rmSync(unfinished, { recursive: true, force: true });
  process.stdout.write(`The peers could not be installed, and are left out:\n${stderr}\n`);
  return null;
}

function cacheFolder(): string {
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(caches, 'folder-runner-bench');
}

function hashOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 12);
}
