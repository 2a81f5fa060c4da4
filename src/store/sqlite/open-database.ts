import { dirname } from 'node:path';
import type { Connection, Driver } from './connection.ts';
import { chooseJournalMode } from './journal-mode.ts';

/** "fold": marks the file as an activity log, for `file` and against writing to a foreign database. */
export const APPLICATION_ID = 0x666f6c64;

/** Long enough for three tiers, a report and a backup at once on a slow disk. */
const BUSY_TIMEOUT_MS = 15_000;

/** How the log is opened. */
export interface Opening {
  readonly driver: Driver;
  readonly busyTimeoutMs: number;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
}

export function completeOpening(driver: Driver, options: Partial<Opening>): Opening {
  return { driver, busyTimeoutMs: BUSY_TIMEOUT_MS, now: Date.now, ...options };
}

/** SQLite's own default. better-sqlite3's is 16 MB, which a worker would fill in time, for nothing. */
const CACHE_KIB = 2_000;

/** Sets what each connection needs. FULL: what was acknowledged survives a power loss. */
export function setUpConnection(connection: Connection, path: string, opening: Opening): void {
  retryWhileBusy(opening.busyTimeoutMs, () => setJournal(connection, path));
  connection.exec(
    `pragma synchronous = full; pragma foreign_keys = on; pragma cache_size = -${CACHE_KIB}`,
  );
}

export function setJournal(connection: Connection, path: string): void {
  const wanted = chooseJournalMode(dirname(path));
  const got = connection.pragma(`journal_mode = ${wanted}`);
  // SQLite answers with the mode it has, without an error, where it cannot change it.
  if (got !== wanted) connection.pragma('journal_mode = truncate');
}

const RETRY_MS = 10;

/** SQLite does not wait, as it does elsewhere, for the lock that a change of the journal needs. */
function retryWhileBusy<T>(timeoutMs: number, run: () => T): T {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return run();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!code?.startsWith('SQLITE_BUSY') || performance.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
