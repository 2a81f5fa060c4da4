import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  DummyDriver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { ActivityLog } from '../schema.ts';
import type { SqliteSession } from './session.ts';

/** Kysely over a session, for the portable queries of reports; what changes the log has statements of its own. */
export function buildQueries(session: SqliteSession): Kysely<ActivityLog> {
  return new Kysely<ActivityLog>({ dialect: dialectOf(() => new ReadingDriver(session)) });
}

/** What a reader gets where nothing has ever run: every question is answered with no rows. */
export function emptyQueries(): Kysely<ActivityLog> {
  return new Kysely<ActivityLog>({ dialect: dialectOf(() => new DummyDriver()) });
}

function dialectOf(createDriver: () => Driver): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver,
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

class ReadingDriver implements Driver {
  readonly #connection: DatabaseConnection;

  constructor(session: SqliteSession) {
    this.#connection = new ReadingConnection(session);
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection;
  }

  beginTransaction(): Promise<void> {
    return refuse();
  }

  commitTransaction(): Promise<void> {
    return refuse();
  }

  rollbackTransaction(): Promise<void> {
    return refuse();
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {}
}

class ReadingConnection implements DatabaseConnection {
  readonly #session: SqliteSession;

  constructor(session: SqliteSession) {
    this.#session = session;
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const rows = await this.#session.ask(() => this.#session.all<Row>(sql, parameters));
    return { rows };
  }

  // biome-ignore lint/correctness/useYield: nobody streams, but Kysely's interface has it.
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    return refuse();
  }
}

function refuse(): never {
  throw new Error('Reports read; whatever changes the log goes through a transaction of the store.');
}
