import type Database from 'better-sqlite3';
import type { ActivityView, JobRow, RunRow, WorkerRow } from '../../src/store/schema.ts';

/**
 * What tests read of a log, whatever its own tables look like: the only place in test/ that knows how a
 * run, a job, a worker or an activity is read from them. `queryLog` and `readLog` show a log through this.
 */
export interface LoggedJob extends JobRow {
  /** Null: it is not claimed, or by who is no worker. */
  readonly claimed_by: number | null;
}

export interface LoggedRun extends RunRow {
  /** What its process knew it by; null: it was run by who is no worker. */
  readonly key: string | null;
  readonly script: string;
  /** `queue` of jobs of the queue. */
  readonly tier: string;
  readonly content_hash: string | null;
  readonly output: string | null;
}

export type LoggedWorker = WorkerRow;
export type LoggedActivity = ActivityView & { readonly id: number };

/** Each hides the table of its name, so a test's `select outcome from runs` outlives a change of tables. */
const views = {
  workers: `select w.*, host, boot_id, runner_version, node_version
    from main.workers as w join main.hosts as h on h.id = host_id`,
  jobs: `select *, case when instr(claim_token, '.') > 0
      then cast(substr(claim_token, 1, instr(claim_token, '.') - 1) as integer) end as claimed_by
    from main.jobs`,
  runs: `select r.*, s.name as script,
      coalesce(worker_id || '.' || claim_number, spool_id) as key,
      substr(s.name, 1, instr(s.name, '/') - 1) as tier, content_hash,
      coalesce(output, case when output_bytes = 0 then '' end) as output
    from main.runs as r join main.scripts as s on s.id = r.script_id
      left join main.script_versions as v on v.id = version_id
      left join main.outputs as o on o.run_id = r.id`,
  // In the order in which it can have been: what is added is there before it runs, and runs before it ends.
  activity: `select row_number() over (order by at, case
      when event = 'worker-started' then 0
      when event = 'job-queued' and run_id is null and detail is null then 1
      when event = 'run-started' then 2
      when event in ('job-lease-expired', 'run-orphaned') then 3
      when run_id is not null then 4
      when event like 'worker-%' then 6
      else 5 end, run_id) as id, a.* from main.activity as a`,
} as const;

/** Only for this connection: nothing of it gets into the file. */
export function showTables(database: Database.Database): void {
  for (const [name, query] of Object.entries(views)) {
    database.exec(`create temp view ${name} as ${query}`);
  }
}
