import type Database from 'better-sqlite3';
import type { ActivityTable, JobRow, RunRow, WorkerRow } from '../../src/store/schema.ts';

/**
 * What tests read of a log, whatever its own tables look like: the only place in test/ that knows how a
 * run, a job, a worker or an activity is read from them. `queryLog` and `readLog` show a log through this.
 */
export type LoggedJob = JobRow;
export type LoggedRun = RunRow;
export type LoggedWorker = WorkerRow;
export type LoggedActivity = Readonly<Omit<ActivityTable, 'id'>> & { readonly id: number };

/** Each hides the table of its name, so a test's `select outcome from runs` outlives a change of tables. */
const views = {
  workers: 'select * from main.workers',
  jobs: 'select * from main.jobs',
  runs: 'select * from main.runs',
  activity: 'select * from main.activity',
} as const;

/** Only for this connection: nothing of it gets into the file. */
export function showTables(database: Database.Database): void {
  for (const [name, query] of Object.entries(views)) {
    database.exec(`create temp view ${name} as ${query}`);
  }
}
