import { statSync } from 'node:fs';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { storeUnavailable } from '../describe-failure.ts';
import { StoreUnavailable } from '../failures.ts';
import { SCHEMA_VERSION } from '../schema.ts';
import type { Connection, ConnectionOptions } from './driver.ts';
import { assertPlain, judgeMarks, type Opening, readVersion } from './file.ts';

type Access = NonNullable<ConnectionOptions['access']>;

/**
 * Opens a log that cannot be written: on a file system mounted read-only, of another user, on a full
 * disk.
 *
 * @param reason why it cannot be written
 * @throws {StoreUnavailable} when it cannot be read either, or not all of it
 */
export function openReadOnly(folder: StateFolder, opening: Opening, reason: unknown): Connection {
  const path = folder.database;
  try {
    return openAs('read-only', path, opening);
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    if (!mayBeImmutable(path)) throw unreadable(path, reason);
    return openAs('immutable', path, opening);
  }
}

/**
 * SQLite cannot make the files beside the log by which readers and writers coordinate. Without a writer's journal, no
 * process is writing, and the file holds all content.
 */
export function mayBeImmutable(path: string): boolean {
  return sizeOf(path) > 0 && sizeOf(`${path}-wal`) === 0 && sizeOf(`${path}-journal`) === 0;
}

function unreadable(path: string, reason: unknown): StoreUnavailable {
  const { message } = reason as Error;
  return storeUnavailable('io', path, message, reason);
}

function openAs(access: Access, path: string, opening: Opening): Connection {
  assertPlain(path);
  const connection = opening.driver.open(path, { timeoutMs: opening.busyTimeoutMs, access });
  try {
    const judged = judgeMarks(connection);
    if (judged !== null) throw storeUnavailable(judged.is, path, judged.reason);
    assertNewest(connection, path);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

function assertNewest(connection: Connection, path: string): void {
  const version = readVersion(connection);
  if (version === SCHEMA_VERSION) return;
  const reason = `and it must be brought from schema ${version} to ${SCHEMA_VERSION} to be read`;
  throw storeUnavailable('read-only', path, reason);
}

/** 0 as well for what cannot be looked at. */
function sizeOf(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    return 0;
  }
}
