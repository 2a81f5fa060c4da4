import { statSync } from 'node:fs';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { isCorruption, kindOfStoreFailure, StoreUnavailable } from '../failures.ts';
import { SCHEMA_VERSION } from '../schema.ts';
import { findDriver } from './driver.ts';
import {
  assertPlain,
  completeOpening,
  type InspectedLog,
  inspectLog,
  judgeMarks,
  markSuspect,
  type OpenFile,
  type Opening,
} from './file.ts';
import { createSqliteStore, type SqliteStore } from './store.ts';

/** How the log is opened; what is left out is found or has its default. */
type OpenOptions = Partial<Opening>;

/**
 * Opens the activity log for a pass, at the newest schema. It is made when it is missing; a broken
 * one is quarantined.
 *
 * @throws {StoreUnavailable} when there can be none
 */
export async function openSqliteStore(folder: StateFolder, options: OpenOptions = {}): Promise<SqliteStore> {
  return await orUnavailable(folder, async () => {
    const opening = await prepareOpening(options);
    const found = await inspectLog(folder, opening);
    if (found.is === 'missing') return await renew(folder, opening);
    if (found.is === 'broken') {
      return await renew(folder, opening).finally(() => found.connection?.close());
    }
    const sound = await acceptSound(folder, found);
    try {
      return await toStore(folder, sound);
    } catch (error) {
      if (!isCorruption(error)) throw error;
      markSuspect(folder);
      return await renew(folder, opening);
    }
  });
}

/**
 * Opens the activity log for a command that reads: null where nothing has ever run, instead of making
 * an empty log; for reading only where nothing can be written; a broken one is left as it is.
 *
 * @throws {StoreUnavailable} when it cannot be read
 */
export async function openExistingSqliteStore(
  folder: StateFolder,
  options: OpenOptions = {},
): Promise<SqliteStore | null> {
  return await orUnavailable(folder, async () => {
    const opening = await prepareOpening(options);
    try {
      const found = await inspectLog(folder, opening);
      if (found.is === 'missing') return null;
      return await toStore(folder, await acceptSound(folder, found));
    } catch (error) {
      if (!isForWantOfWriting(error)) throw error;
      return createSqliteStore(folder, await openReadOnly(folder, opening, error), { isReadOnly: true });
    }
  });
}

async function prepareOpening(options: OpenOptions): Promise<Opening> {
  return completeOpening(options.driver ?? (await findDriver()).driver, options);
}

async function renew(folder: StateFolder, opening: Opening): Promise<SqliteStore> {
  const { renewLog } = await import('./create.ts');
  const { found, quarantined } = await renewLog(folder, opening);
  return await toStore(folder, await acceptSound(folder, found), quarantined);
}

async function acceptSound(folder: StateFolder, found: InspectedLog): Promise<SoundLog> {
  if (found.is === 'sound') return found;
  if (found.is === 'broken') found.connection?.close();
  const { storeUnavailable } = await import('../describe-failure.ts');
  if (found.is === 'missing') throw storeUnavailable('io', folder.database, 'it vanished');
  throw storeUnavailable(found.is, folder.database, found.reason);
}

type SoundLog = Extract<InspectedLog, { readonly is: 'sound' }>;

async function toStore(
  folder: StateFolder,
  { connection, version, isWal }: SoundLog,
  quarantined: string | null = null,
): Promise<SqliteStore> {
  try {
    if (version < SCHEMA_VERSION) (await import('./migrations.ts')).migrateFile(connection);
    return createSqliteStore(folder, { connection, isWal }, { quarantined });
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Opens a log that cannot be written: on a file system mounted read-only, of another user, on a full disk.
 *
 * @param reason why it cannot be written
 * @throws {StoreUnavailable} when it cannot be read either, or not all of it
 */
async function openReadOnly(folder: StateFolder, opening: Opening, reason: unknown): Promise<OpenFile> {
  const path = folder.database;
  try {
    return await openAs('read-only', path, opening);
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    if (mayBeImmutable(path)) return await openAs('immutable', path, opening);
    const { storeUnavailable } = await import('../describe-failure.ts');
    throw storeUnavailable('io', path, (reason as Error).message, reason);
  }
}

/**
 * SQLite cannot make the files beside the log by which readers and writers coordinate. Without a writer's journal, no
 * process is writing, and the file holds all content.
 */
export function mayBeImmutable(path: string): boolean {
  return sizeOf(path) > 0 && sizeOf(`${path}-wal`) === 0 && sizeOf(`${path}-journal`) === 0;
}

/** 0 as well for what cannot be looked at. */
function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}

async function openAs(access: 'read-only' | 'immutable', path: string, opening: Opening): Promise<OpenFile> {
  assertPlain(path);
  const connection = opening.driver.open(path, { timeoutMs: opening.busyTimeoutMs, access });
  try {
    const marks = judgeMarks(connection);
    if (marks.is === 'own' && marks.version === SCHEMA_VERSION) {
      return { connection, isWal: connection.pragma('journal_mode') === 'wal' };
    }
    const { storeUnavailable } = await import('../describe-failure.ts');
    if (marks.is !== 'own') throw storeUnavailable(marks.is, path, marks.reason);
    const reason = `and it must be brought from schema ${marks.version} to ${SCHEMA_VERSION} to be read`;
    throw storeUnavailable('read-only', path, reason);
  } catch (error) {
    connection.close();
    throw error;
  }
}

function isForWantOfWriting(error: unknown): boolean {
  return ['read-only', 'full', 'io'].includes(kindOfStoreFailure(error) ?? '');
}

async function orUnavailable<T>(folder: StateFolder, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    const { toStoreUnavailable } = await import('../describe-failure.ts');
    throw toStoreUnavailable(error, folder);
  }
}
