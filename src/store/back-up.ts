import { renameSync, statSync } from 'node:fs';
import { sql } from 'kysely';
import { createPrivateFile, removeDatabase, syncFile } from './database-files.ts';
import type { Store } from './open-store.ts';
import { findDriver } from './sqlite/load-driver.ts';

/** A copy of the log that stands alone. */
export interface Backup {
  readonly path: string;
  readonly bytes: number;
}

/**
 * Copies the log as it is at one moment, while passes write to it. The copy appears under its name
 * when it is whole and was looked through; a file of that name is replaced.
 *
 * @throws when it cannot be written, or is damaged; nothing is left of it then
 */
export async function backUp(store: Store, path: string): Promise<Backup> {
  try {
    await writeCopy(store, path);
    return { path, bytes: statSync(path).size };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw Object.assign(new Error(`${path} was not written: ${message}`, { cause: error }), {
      code,
    });
  }
}

async function writeCopy(store: Store, path: string): Promise<void> {
  const unfinished = `${path}.unfinished-${process.pid}`;
  createPrivateFile(unfinished);
  try {
    await sql`vacuum into ${unfinished}`.execute(store.db);
    await assertSound(unfinished);
    syncFile(unfinished);
    renameSync(unfinished, path);
  } finally {
    removeDatabase(unfinished);
  }
}

async function assertSound(path: string): Promise<void> {
  const { driver } = await findDriver();
  const copy = driver.open(path, { timeoutMs: 0 });
  try {
    const answer = copy.pragma('integrity_check(1)');
    if (answer === 'ok') return;
    throw Object.assign(new Error(`the log is damaged: ${answer}`), { code: 'SQLITE_CORRUPT' });
  } finally {
    copy.close();
  }
}
