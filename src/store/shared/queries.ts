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

/** How Kysely writes for an engine. */
export type Compiler = Omit<Dialect, 'createDriver'>;

type Read = (text: string, values: readonly unknown[]) => Promise<unknown[]>;

/** Kysely for the portable queries of reports; what changes the log has statements of its own. */
export function buildQueries(compiler: Compiler, read: Read): Kysely<ActivityLog> {
  return new Kysely<ActivityLog>({ dialect: { ...compiler, createDriver: () => new ReadingDriver(read) } });
}

/** How it writes for SQLite. */
export const sqliteCompiler: Compiler = {
  createAdapter: () => new SqliteAdapter(),
  createIntrospector: (db) => new SqliteIntrospector(db),
  createQueryCompiler: () => new SqliteQueryCompiler(),
};

/** The queries of a log that does not exist yet: each one returns no rows. */
export function emptyQueries(): Kysely<ActivityLog> {
  return new Kysely<ActivityLog>({ dialect: { ...sqliteCompiler, createDriver: () => new DummyDriver() } });
}

class ReadingDriver implements Driver {
  readonly #connection: DatabaseConnection;

  constructor(read: Read) {
    this.#connection = new ReadingConnection(read);
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
  readonly #read: Read;

  constructor(read: Read) {
    this.#read = read;
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    return { rows: (await this.#read(sql, parameters)) as Row[] };
  }

  // biome-ignore lint/correctness/useYield: nobody streams, but Kysely's interface has it.
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    return refuse();
  }
}

function refuse(): never {
  throw new Error('Reports read; whatever changes the log goes through a transaction of the store.');
}
