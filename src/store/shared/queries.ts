import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  DummyDriver,
  Kysely,
  MysqlAdapter,
  MysqlIntrospector,
  MysqlQueryCompiler,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { EngineName } from '../columns.ts';
import type { ActivityLog } from '../schema.ts';

type Read = (text: string, values: readonly unknown[]) => Promise<unknown[]>;

/** Kysely for the portable queries of reports; what changes the log has statements of its own. */
export function buildQueries(engine: EngineName, read: Read): Kysely<ActivityLog> {
  return new Kysely<ActivityLog>({ dialect: { ...compilers[engine], createDriver: () => new ReadingDriver(read) } });
}

/** A join that begins with the table on the left is `cross join` for SQLite and `straight_join` for MySQL. */
class OrderedJoins extends MysqlQueryCompiler {
  override compileQuery(...args: Parameters<MysqlQueryCompiler['compileQuery']>): CompiledQuery {
    const query = super.compileQuery(...args);
    return { ...query, sql: query.sql.replaceAll(' cross join ', ' straight_join ') };
  }
}

/** How Kysely writes for each engine. */
const compilers: Readonly<Record<EngineName, Omit<Dialect, 'createDriver'>>> = {
  sqlite: {
    createAdapter: () => new SqliteAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
  postgres: {
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
  mysql: {
    createAdapter: () => new MysqlAdapter(),
    createIntrospector: (db) => new MysqlIntrospector(db),
    createQueryCompiler: () => new OrderedJoins(),
  },
};

/** The queries of a log that does not exist yet: each one returns no rows. */
export function emptyQueries(): Kysely<ActivityLog> {
  return buildQueries('sqlite', async () => []);
}

class ReadingDriver extends DummyDriver {
  readonly #connection: DatabaseConnection;

  constructor(read: Read) {
    super();
    this.#connection = {
      executeQuery: async <Row>({ sql, parameters }: CompiledQuery) => ({
        rows: (await read(sql, parameters)) as Row[],
      }),
      streamQuery: refuse,
    };
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection;
  }

  override beginTransaction(): Promise<void> {
    return refuse();
  }
}

function refuse(): never {
  throw new Error('Reports read; whatever changes the log goes through a transaction of the store.');
}
