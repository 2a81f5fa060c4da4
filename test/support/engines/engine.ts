import type { ActivityView, JobRow, RunRow, WorkerRow } from '../../../src/store/schema.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';

/**
 * What tests read of a log, whatever its own tables look like: the only place in test/ that knows how a
 * run, a job, a worker or an activity is read from them. `queryLog` and `lookIntoLog` show a log through this.
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

/** How an engine writes what each writes in its own way. */
export interface ViewSql {
  /** The table itself, not what hides it. */
  table(name: string): string;
  integer(text: string): string;
  /** A text's part before the first such mark, which it has. */
  before(text: string, mark: string): string;
}

/** Each hides the table of its name, so a test's `select outcome from runs` outlives a change of tables. */
export function viewsOf({ table, integer, before }: ViewSql): Readonly<Record<string, string>> {
  return {
    workers: `select w.*, host, boot_id, runner_version, node_version
      from ${table('workers')} as w join ${table('hosts')} as h on h.id = host_id`,
    jobs: `select j.*, case when claim_token like '%.%' then ${integer(before('claim_token', '.'))} end as claimed_by
      from ${table('jobs')} as j`,
    runs: `select r.*, s.name as script,
        coalesce(worker_id || '.' || claim_number, spool_id) as "key",
        ${before('s.name', '/')} as tier, content_hash,
        coalesce(output, case when output_bytes = 0 then '' end) as output
      from ${table('runs')} as r join ${table('scripts')} as s on s.id = r.script_id
        left join ${table('script_versions')} as v on v.id = version_id
        left join ${table('outputs')} as o on o.run_id = r.id`,
    // In the order in which it can have been: what is added is there before it runs, and runs before it ends.
    activity: `select row_number() over (order by at, case
        when event = 'worker-started' then 0
        when event = 'job-queued' and run_id is null and detail is null then 1
        when event = 'run-started' then 2
        when event in ('job-lease-expired', 'run-orphaned') then 3
        when run_id is not null then 4
        when event like 'worker-%' then 6
        else 5 end, run_id) as id, a.* from ${table('activity')} as a`,
  };
}

/** What keeps a log, and how tests look at one from outside. */
export interface Engine {
  readonly name: string;
  /** What a process needs in its environment to use it as the test does. */
  environment(): NodeJS.ProcessEnv;
  /** Has whatever works in a root use it, in this process and in what it starts; what it returns undoes that. */
  choose(root: string): () => void | Promise<void>;
  /** As a runner opens it. */
  openStore(state: StateFolder): Promise<Store>;
  /** False before the first pass, and of ruins. */
  hasTables(root: string): boolean;
  connect(root: string, access: Access): LogConnection;
  /** To read again and again: to connect takes ten times as long as to read. */
  watch(root: string): LogReader;
  /** What the engine itself finds wrong. */
  findDamage(log: LogConnection): string[];
  /** Keeps everybody else from writing until it is closed, which commits; null: somebody else does so. */
  hold(root: string, patienceMs: number): LogConnection | null;
  /** As if there were no room for what such statements write, as `update on runs`; what it returns makes room. */
  refuse(root: string, what: string): () => void;
  /** As if a newer runner had written the log, which this one leaves alone then; or as before that. */
  setNewer(root: string, isNewer: boolean): void;
}

/** `read`: what `viewsOf` shows, at one instant. `lie`: nothing is checked. */
export type Access = 'read' | 'change' | 'lie';

/** A log as any other program has it. */
export interface LogConnection {
  all<Row>(sql: string, ...values: readonly unknown[]): Row[];
  /** How many rows it changed. */
  change(sql: string, ...values: readonly unknown[]): number;
  close(): void;
}

export interface LogReader {
  /** At one instant, as `read` shows it. */
  look<T>(read: (log: LogConnection) => T): T;
  close(): void;
}
