import Database from 'better-sqlite3';
import { stateFolderOf } from '../../src/place/state-folder.ts';
import {
  type LoggedActivity,
  type LoggedJob,
  type LoggedRun,
  type LoggedWorker,
  showTables,
} from './log-tables.ts';

/** The rows of a query on a root's activity log, read while nothing is changed. */
export function queryLog<Row>(root: string, sql: string, ...values: readonly unknown[]): Row[] {
  const database = new Database(stateFolderOf(root).database, { readonly: true });
  try {
    showTables(database);
    return database.prepare<unknown[], Row>(sql).all(...values);
  } finally {
    database.close();
  }
}

export const readJobs = (root: string) => readAll<LoggedJob>(root, 'jobs');
export const readRuns = (root: string) => readAll<LoggedRun>(root, 'runs');
export const readWorkers = (root: string) => readAll<LoggedWorker>(root, 'workers');
export const readActivity = (root: string) => readAll<LoggedActivity>(root, 'activity');

function readAll<Row>(root: string, table: string): Row[] {
  return queryLog<Row>(root, `select * from ${table} order by id`);
}

/** Changes a root's log by hand, as a fault or another program would; how many rows it changed. */
export function changeLog(root: string, sql: string, ...values: readonly unknown[]): number {
  const database = new Database(stateFolderOf(root).database);
  try {
    return database.prepare(sql).run(...values).changes;
  } finally {
    database.close();
  }
}
