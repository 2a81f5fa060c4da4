import { onTestFinished, test } from 'vitest';
import type { FinishedRun } from '../../src/store/schema.ts';
import type { LoggedActivity, LoggedJob, LoggedRun, LoggedWorker } from './engines/engine.ts';
import { engine, type LogConnection, type LogReader } from './engines/engines.ts';

const watched = new Map<string, LogReader>();

/** Until the test has ended, what is read of this root's log is read by one connection. */
export function watchLog(root: string): void {
  const reader = engine.watch(root);
  watched.set(root, reader);
  onTestFinished(() => {
    watched.delete(root);
    reader.close();
  });
}

/** A look at a root's activity log while nothing is changed. */
export function lookIntoLog<T>(root: string, read: (log: LogConnection) => T): T {
  const reader = watched.get(root);
  if (reader !== undefined) return reader.look(read);
  const log = engine.connect(root, 'read');
  try {
    return read(log);
  } finally {
    log.close();
  }
}

/** The rows of a query on it. */
export function queryLog<Row>(root: string, sql: string, ...values: readonly unknown[]): Row[] {
  return lookIntoLog(root, (log) => log.all(sql, ...values));
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

/** For what only SQLite has: its file, its plans, its triggers. Beside each such test stands what that is. */
export const testOfSqlite = test.runIf(engine.name === 'sqlite');

/** The end of a run that succeeded, unless said otherwise. */
export function makeFinishedRun(fields: Partial<FinishedRun> = {}): FinishedRun {
  return {
    outcome: 'succeeded',
    finished_at: 2_000,
    duration_us: 12_500,
    user_cpu_us: 5000,
    system_cpu_us: 1000,
    max_rss_bytes: 40_000_000,
    rss_delta_bytes: null,
    measured_by: 'self',
    exit_code: 0,
    signal: null,
    reason: null,
    warning: null,
    suspect: 0,
    error_name: null,
    error_message: null,
    error_stack: null,
    output_bytes: 3,
    output_dropped_bytes: 0,
    output_file: null,
    output_file_bytes: null,
    output: 'hi\n',
    ...fields,
  };
}
