import { statSync } from 'node:fs';
import type { StateFolder } from '../../place/state-folder.ts';
import type { Store, StoreSession } from '../contract.ts';
import { mayBeFull } from '../failures.ts';
import { asAsync } from './areas.ts';
import { watchLog } from './change-feed.ts';
import { claimStatements } from './claims.ts';
import type { Connection, DriverName } from './connection.ts';
import { eventStatements, pauseStatements, pruneStatements } from './housekeeping.ts';
import { jobStatements } from './jobs.ts';
import { releaseReserve } from './reserve.ts';
import { runStatements } from './runs.ts';
import { scriptJobStatements } from './script-jobs.ts';
import { SqliteSession } from './session.ts';
import { workerStatements } from './workers.ts';

/** The log in one file, with what only a file of SQLite has. */
export interface SqliteStore extends Store {
  readonly driver: DriverName;
  readonly connection: Connection;
  /** `wal`, or `truncate` where that is not safe. */
  readonly journalMode: string;
}

export interface StoreMarks {
  readonly isReadOnly?: boolean;
  readonly quarantined?: string | null;
}

/** Around a connection to a sound log, which the store closes. */
export function createSqliteStore(
  folder: StateFolder,
  connection: Connection,
  { isReadOnly = false, quarantined = null }: StoreMarks = {},
): SqliteStore {
  const session = new SqliteSession(connection, {
    path: folder.database,
    checkFile: createFileCheck(folder.database),
  });
  const statements = statementsOf(session);
  const inTransaction = areasOf(statements, async (work) => work());
  return {
    engine: 'sqlite',
    driver: connection.driver,
    connection,
    journalMode: session.isWal ? 'wal' : 'truncate',
    isReadOnly,
    quarantined,
    ...areasOf(statements, (work) => session.ask(work)),
    transaction: (work, durability = 'durable') =>
      session.transaction(() => work(inTransaction), durability),
    sync: async () => session.sync(),
    onDurable: (notify) => session.onDurable(notify),
    retryWhenFull: (work) => retryWhenFull(folder, work),
    withBusyTimeout: (ms, work) => withBusyTimeout(session, ms, work),
    queries: async () => (await import('./dialect.ts')).buildQueries(session),
    watch: () => watchLog(folder, session),
    close: () => session.close(),
  };
}

function statementsOf(session: SqliteSession) {
  return {
    jobs: jobStatements(session),
    claims: claimStatements(session),
    scriptJobs: scriptJobStatements(session),
    runs: runStatements(session),
    workers: workerStatements(session),
    events: eventStatements(session),
    pauses: pauseStatements(session),
    pruning: pruneStatements(session),
  };
}

function areasOf(
  areas: ReturnType<typeof statementsOf>,
  call: <R>(work: () => R) => Promise<R>,
): StoreSession {
  return {
    jobs: asAsync(areas.jobs, call),
    claims: asAsync(areas.claims, call),
    scriptJobs: asAsync(areas.scriptJobs, call),
    runs: asAsync(areas.runs, call),
    workers: asAsync(areas.workers, call),
    events: asAsync(areas.events, call),
    pauses: asAsync(areas.pauses, call),
    pruning: asAsync(areas.pruning, call),
  };
}

/** With WAL, SQLite itself goes on writing to a log that was quarantined by another runner. */
function createFileCheck(path: string): () => void {
  const { ino } = statSync(path);
  return () => {
    if (statSync(path, { throwIfNoEntry: false })?.ino === ino) return;
    const message = `${path} was moved away while it was in use`;
    throw Object.assign(new Error(message), { code: 'SQLITE_READONLY_DBMOVED' });
  };
}

async function withBusyTimeout<T>(
  session: SqliteSession,
  ms: number,
  work: () => Promise<T>,
): Promise<T> {
  const before = session.busyTimeoutMs;
  session.busyTimeoutMs = ms;
  try {
    return await work();
  } finally {
    session.busyTimeoutMs = before;
  }
}

async function retryWhenFull<T>(folder: StateFolder, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!mayBeFull(error) || !releaseReserve(folder)) throw error;
    return await work();
  }
}
