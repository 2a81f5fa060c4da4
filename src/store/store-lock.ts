import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { StateFolder } from '../config/state-folder.ts';
import { createPrivateFile } from './database-files.ts';
import type { Connection } from './sqlite/connection.ts';
import type { Opening } from './sqlite/open-database.ts';
import { kindOfStoreFailure } from './store-failure.ts';

/**
 * Lets one process at a time make a log or set one aside. The lock is SQLite's, on an empty database of
 * its own: whatever its holder dies of, the kernel gives it free at once.
 */
export async function withStoreLock<T>(
  { path }: StateFolder,
  opening: Opening,
  work: () => Promise<T>,
): Promise<T> {
  const file = join(path, 'activity.lock');
  createEmpty(file);
  const lock = opening.driver.open(file, { timeoutMs: 0 });
  try {
    await beginWhenFree(lock, opening.busyTimeoutMs);
    return await work();
  } finally {
    lock.close();
  }
}

/** Never one that is there: closing it would drop a lock that this process holds on it. */
function createEmpty(path: string): void {
  try {
    createPrivateFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

const RETRY_MS = 10;

async function beginWhenFree(lock: Connection, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!lock.inTransaction) {
    try {
      lock.exec('begin exclusive');
    } catch (error) {
      if (kindOfStoreFailure(error) !== 'locked' || performance.now() > deadline) throw error;
      await wait(RETRY_MS);
    }
  }
}
