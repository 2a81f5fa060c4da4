import { type CompiledQuery, MysqlAdapter, MysqlIntrospector, MysqlQueryCompiler } from 'kysely';
import type { Compiler } from '../../shared/queries.ts';

export const mysqlCompiler: Compiler = {
  createAdapter: () => new MysqlAdapter(),
  createIntrospector: (db) => new MysqlIntrospector(db),
  createQueryCompiler: () => new OrderedJoins(),
};

/** What begins with the table on the left, which SQLite is told by `cross join`, MySQL calls `straight_join`. */
class OrderedJoins extends MysqlQueryCompiler {
  override compileQuery(...args: Parameters<MysqlQueryCompiler['compileQuery']>): CompiledQuery {
    const query = super.compileQuery(...args);
    return { ...query, sql: query.sql.replaceAll(' cross join ', ' straight_join ') };
  }
}
