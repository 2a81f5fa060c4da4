import { setTimeout as sleep } from 'node:timers/promises';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type QueryResult,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type SqliteStatement,
} from 'kysely';
import { errorCode } from '../../base/errors.ts';
import type { Connection } from './connection.ts';

/** What a log needs beyond Kysely's own dialect. */
interface LogDialect {
  readonly patience: Readonly<Patience>;
  /** Called when the write lock is held: throws if the file is no longer the one to write to. */
  readonly checkFile: () => void;
}

type LogDatabase = SqliteDatabase & Pick<Connection, 'inTransaction'>;

/** Kysely's SQLite dialect with transactions that take the write lock at their start. */
export function sqliteDialect(
  database: LogDatabase,
  { patience = { ms: 0 }, checkFile = () => {} }: Partial<LogDialect> = {},
): Dialect {
  return {
    createAdapter: () => new TransactionalDdlAdapter(),
    createDriver: () => new ImmediateDriver(database, patience, checkFile),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

/** A pass asks the same dozen questions for each script; preparing them is most of their price. */
function preparingOnce(database: SqliteDatabase): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>();
  return {
    close: () => database.close(),
    prepare: (text) => {
      const statement = statements.get(text) ?? database.prepare(text);
      statements.set(text, statement);
      return statement;
    },
  };
}

class ImmediateDriver extends SqliteDriver {
  readonly #database: LogDatabase;
  readonly #patience: Readonly<Patience>;
  readonly #checkFile: () => void;
  #patient: PatientConnection | null = null;

  constructor(database: LogDatabase, patience: Readonly<Patience>, checkFile: () => void) {
    super({ database: preparingOnce(database) });
    this.#database = database;
    this.#patience = patience;
    this.#checkFile = checkFile;
  }

  /** Always the same one, as it is beneath. */
  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    this.#patient ??= new PatientConnection(connection, this.#database, this.#patience);
    return this.#patient;
  }

  /** A deferred transaction that reads first fails with SQLITE_BUSY, at once, when it then writes. */
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'));
    try {
      this.#checkFile();
    } catch (error) {
      await this.rollbackTransaction(connection);
      throw error;
    }
  }

  /** SQLite rolls back by itself when the disk is full: a second time would hide what went wrong. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#database.inTransaction) await super.rollbackTransaction(connection);
  }
}

/** SQLite's DDL is transactional; Kysely is told so that migrations are all or nothing. */
class TransactionalDdlAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

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
class PatientConnection implements DatabaseConnection {
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
