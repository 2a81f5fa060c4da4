import { engine } from './engines.ts';
import type { LoggedActivity, LoggedJob, LoggedRun, LoggedWorker } from './log-tables.ts';

/** The rows of a query on a root's activity log, read while nothing is changed. */
export function queryLog<Row>(root: string, sql: string, ...values: readonly unknown[]): Row[] {
  const log = engine.connect(root, 'read');
  try {
    return log.all(sql, ...values);
  } finally {
    log.close();
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
  return change(root, 'change', sql, values);
}

/** The same of what cannot be: nothing is checked. */
export function lieInLog(root: string, sql: string): void {
  change(root, 'lie', sql, []);
}

function change(root: string, access: 'change' | 'lie', sql: string, values: readonly unknown[]): number {
  const log = engine.connect(root, access);
  try {
    return log.change(sql, ...values);
  } finally {
    log.close();
  }
}
