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

interface TransactionalDatabase extends SqliteDatabase {
  readonly inTransaction: boolean;
}

/**
 * Kysely's SQLite dialect with transactions that take the write lock at their start.
 *
 * @param checkFile called when that lock is held: throws if the file is no longer the one to write to
 */
export function sqliteDialect(
  database: TransactionalDatabase,
  checkFile: () => void = () => {},
): Dialect {
  return {
    createAdapter: () => new TransactionalDdlAdapter(),
    createDriver: () => new ImmediateDriver(database, checkFile),
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
  readonly #database: TransactionalDatabase;
  readonly #checkFile: () => void;

  constructor(database: TransactionalDatabase, checkFile: () => void) {
    super({ database: preparingOnce(database) });
    this.#database = database;
    this.#checkFile = checkFile;
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
