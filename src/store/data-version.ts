import type { SqliteStatement } from 'kysely';
import type { Connection } from './sqlite/connection.ts';

/**
 * Reads a number that differs from the one before if another connection has committed meanwhile; null:
 * the log is locked just now. It does not wait for the lock: whoever asks has other things to do.
 */
export function createVersionReader(
  connection: Connection,
  journalMode: () => string,
): () => number | null {
  let prepared: SqliteStatement | null = null;
  return () => {
    const statement = prepared ?? connection.prepare('pragma data_version');
    prepared = statement;
    // With WAL no reader ever has to wait for a writer.
    if (journalMode() === 'wal') return readVersion(statement);
    return withoutWaiting(connection, () => readVersion(statement));
  };
}

function readVersion(statement: SqliteStatement): number | null {
  try {
    const [row] = statement.all([]) as { readonly data_version: number }[];
    return row?.data_version ?? null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code?.startsWith('SQLITE_BUSY')) return null;
    throw error;
  }
}

function withoutWaiting<T>(connection: Connection, work: () => T): T {
  const timeoutMs = Number(connection.pragma('busy_timeout'));
  connection.pragma('busy_timeout = 0');
  try {
    return work();
  } finally {
    connection.pragma(`busy_timeout = ${timeoutMs}`);
  }
}
