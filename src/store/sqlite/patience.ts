import { setTimeout as sleep } from 'node:timers/promises';
import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely';
import { errorCode } from '../../config/error-code.ts';
import type { Connection } from './connection.ts';

/** While SQLite itself waits for a lock, the whole process stands still: no signal, no time limit, no lease is served. */
const STANDSTILL_MS = 10;
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 25;

/** How long a locked log is waited for. */
export interface Patience {
  ms: number;
}

/** Leaves all but the first moments of SQLite's wait to `PatientConnection`. */
export function takeOverPatience(connection: Connection): Patience {
  const ms = Number(connection.pragma('busy_timeout'));
  if (ms > STANDSTILL_MS) connection.pragma(`busy_timeout = ${STANDSTILL_MS}`);
  return { ms };
}

/** Waits for a log that others have locked as SQLite does, but lets the process do what else it has to do. */
export class PatientConnection implements DatabaseConnection {
  readonly #inner: DatabaseConnection;
  readonly #database: Pick<Connection, 'inTransaction'>;
  readonly #patience: Readonly<Patience>;

  constructor(
    inner: DatabaseConnection,
    database: Pick<Connection, 'inTransaction'>,
    patience: Readonly<Patience>,
  ) {
    this.#inner = inner;
    this.#database = database;
    this.#patience = patience;
  }

  executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    const { inTransaction } = this.#database;
    const startedAt = performance.now();
    try {
      return this.#inner.executeQuery(query);
    } catch (error) {
      return this.#tryAgain(query, error, startedAt + this.#patience.ms, inTransaction);
    }
  }

  async #tryAgain<Row>(
    query: CompiledQuery,
    firstError: unknown,
    deadline: number,
    wasInTransaction: boolean,
  ): Promise<QueryResult<Row>> {
    let error = firstError;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      // A transaction that SQLite has ended is lost: the rest of it must not be done alone.
      const isSame = this.#database.inTransaction === wasInTransaction;
      if (!isBusy(error) || !isSame || performance.now() >= deadline) throw error;
      await sleep(pauseMs);
      try {
        return await this.#inner.executeQuery(query);
      } catch (again) {
        error = again;
      }
    }
  }

  streamQuery<Row>(
    query: CompiledQuery,
    chunkSize?: number,
  ): AsyncIterableIterator<QueryResult<Row>> {
    return this.#inner.streamQuery(query, chunkSize ?? 1);
  }
}

function isBusy(error: unknown): boolean {
  return errorCode(error).startsWith('SQLITE_BUSY');
}
