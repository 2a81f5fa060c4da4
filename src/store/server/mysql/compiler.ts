import { MysqlAdapter, MysqlIntrospector, MysqlQueryCompiler } from 'kysely';
import type { Compiler } from '../../shared/queries.ts';

export const mysqlCompiler: Compiler = {
  createAdapter: () => new MysqlAdapter(),
  createIntrospector: (db) => new MysqlIntrospector(db),
  createQueryCompiler: () => new MysqlQueryCompiler(),
};
