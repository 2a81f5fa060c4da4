import type { StateFolder } from '../../system/place/state-folder.ts';
import { isCorruption, kindOfStoreFailure } from '../failures.ts';
import { SCHEMA_VERSION } from '../schema.ts';
import { findDriver } from './driver.ts';
import { completeOpening, type InspectedLog, inspectLog, markSuspect, type Opening } from './file.ts';
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
      const { openReadOnly } = await import('./open-read-only.ts');
      return createSqliteStore(folder, openReadOnly(folder, opening, error), { isReadOnly: true });
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
  { connection, version }: SoundLog,
  quarantined: string | null = null,
): Promise<SqliteStore> {
  try {
    if (version < SCHEMA_VERSION) (await import('./migrations.ts')).migrateFile(connection);
    return createSqliteStore(folder, connection, { quarantined });
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
