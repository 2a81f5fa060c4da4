import Database from 'better-sqlite3';
import { stateFolderOf } from '../../src/config/state-folder.ts';

/** The rows of a query on a root's activity log, read while nothing is changed. */
export function queryLog<Row>(root: string, sql: string, ...values: readonly unknown[]): Row[] {
  const database = new Database(stateFolderOf(root).database, { readonly: true });
  try {
    return database.prepare<unknown[], Row>(sql).all(...values);
  } finally {
    database.close();
  }
}
