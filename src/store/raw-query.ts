import { CompiledQuery } from 'kysely';
import type { Database } from './database.ts';

/** For statements that run once for each job: building and compiling one costs more than running it. */
export async function queryRaw<Row>(
  db: Database,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const { rows } = await db.executeQuery<Row>(CompiledQuery.raw(text, [...values]));
  return rows;
}
