import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type SqliteStatement,
} from 'kysely';
import type { Connection } from './connection.ts';
import { type Patience, PatientConnection } from './patience.ts';

/** What a log needs beyond Kysely's own dialect. */
export interface LogDialect {
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
