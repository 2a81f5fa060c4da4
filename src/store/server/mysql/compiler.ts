import { type CompiledQuery, MysqlAdapter, MysqlIntrospector, MysqlQueryCompiler } from 'kysely';
import type { Compiler } from '../../shared/queries.ts';

export const mysqlCompiler: Compiler = {
  createAdapter: () => new MysqlAdapter(),
  createIntrospector: (db) => new MysqlIntrospector(db),
  createQueryCompiler: () => new OrderedJoins(),
};

/** A join that begins with the table on the left is `cross join` for SQLite and `straight_join` for MySQL. */
class OrderedJoins extends MysqlQueryCompiler {
  override compileQuery(...args: Parameters<MysqlQueryCompiler['compileQuery']>): CompiledQuery {
    const query = super.compileQuery(...args);
    return { ...query, sql: query.sql.replaceAll(' cross join ', ' straight_join ') };
  }
}
