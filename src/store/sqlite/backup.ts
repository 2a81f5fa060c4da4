import { renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { findDriver } from './driver.ts';
import { createPrivateFile, removeDatabase, syncFile } from './file.ts';
import type { SqliteStore } from './store.ts';

/** A copy of the log that stands alone. */
interface Backup {
  readonly path: string;
  readonly bytes: number;
}

/**
 * Copies the log as it is at one moment, while passes write to it. The copy appears under its name
 * when it is whole and was looked through; a file of that name is replaced.
 *
 * @throws when it cannot be written, or is damaged; nothing is left of it then
 */
export async function backUp(store: SqliteStore, path: string): Promise<Backup> {
  try {
    await writeCopy(store, path);
    return { path, bytes: statSync(path).size };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const message = `${path} was not written: ${describeFailure(error as Error, dirname(path))}`;
    throw Object.assign(new Error(message, { cause: error }), { code });
  }
}

function describeFailure(error: Error, folder: string): string {
  const noRoom = `no space left in ${folder}; delete files that you do not need, or name another folder`;
  const sentences: Readonly<Record<string, string>> = {
    EACCES: `your user may not write in ${folder}; name a file in another folder`,
    EROFS: `${folder} is read-only; name a file in another folder`,
    // As in /proc: the folder is there.
    ENOENT: `no file can be made in ${folder}; name one in another folder`,
    ENOSPC: noRoom,
    EDQUOT: noRoom,
    SQLITE_FULL: noRoom,
    SQLITE_BUSY: 'the log stays locked by another program; try again when that has ended',
  };
  return sentences[errorCode(error)] ?? error.message;
}

async function writeCopy(store: SqliteStore, path: string): Promise<void> {
  const unfinished = `${path}.unfinished-${process.pid}`;
  createPrivateFile(unfinished);
  try {
    store.connection.prepare('vacuum into ?').run([unfinished]);
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
