import { join } from 'node:path';
import Database from 'better-sqlite3';

type Row = Readonly<Record<string, string | number | bigint | Buffer | null>>;

/** Bedrock's table as its plugin makes it (queues.md, 1.1). */
const bedrockSchema = `create table jobs (created timestamp not null, jobID integer not null primary key,
  state text not null, name text not null, nextRun timestamp not null, lastRun timestamp,
  repeat text not null, data text not null, priority integer not null default 500,
  parentJobID integer not null default 0, retryAfter text not null default "");
  create index jobsName on jobs (name);
  create index jobsParentJobIDState on jobs (parentJobID, state) where parentJobID != 0;
  create index jobsStatePriorityNextRunName on jobs (state, priority, nextRun, name)`;

/** LaterJob's tables as Doctrine makes them (queues.md, 3.1). */
const laterSchema = (prefix: string): string => `
  create table ${prefix}_queue (job_id char(36) not null primary key, state_id integer not null,
    dte_add datetime not null, retry_count integer default 0, retry_last datetime default null,
    job_data clob default null, handle char(36) default null, lock_timeout datetime default null);
  create table ${prefix}_transition (transition_id integer not null primary key autoincrement,
    worker_id char(36) default null, job_id char(36) default null, state_id integer not null,
    process_handle char(36) default null, dte_occured datetime not null,
    transition_msg varchar(200) default null);
  create table ${prefix}_monitor (monitor_id integer not null primary key, monitor_dte datetime)`;

export const bedrockRow = {
  created: '2026-03-01 08:00:00',
  state: 'QUEUED',
  name: 'Mail',
  nextRun: '2026-03-01 08:00:00',
  lastRun: null,
  repeat: '',
  data: '{}',
} as const satisfies Row;

export interface ForeignFile {
  readonly folder: string;
  readonly file?: string;
  readonly schema?: string;
  readonly journal?: 'wal' | 'delete';
}

/** A Bedrock database with these jobs; what a row leaves out is that of a plain queued one. */
export function makeBedrock(place: ForeignFile, jobs: readonly Row[], table = 'jobs'): string {
  const rows = jobs.map((job) => ({ ...bedrockRow, ...job }));
  return makeFile({ file: 'bedrock.db', schema: bedrockSchema, ...place }, { [table]: rows });
}

export interface LaterRows {
  readonly jobs: readonly Row[];
  readonly transitions?: readonly Row[];
}

/** A LaterJob database with these jobs; what a row leaves out is that of a new one. */
export function makeLaterJob(place: ForeignFile, { jobs, transitions = [] }: LaterRows, prefix = 'later_job'): string {
  const added = { state_id: 1, dte_add: '2026-03-01 08:00:00', retry_count: 3 };
  return makeFile(
    { file: 'later.db', schema: laterSchema(prefix), ...place },
    { [`${prefix}_queue`]: jobs.map((job) => ({ ...added, ...job })), [`${prefix}_transition`]: transitions },
  );
}

function makeFile(
  { folder, file = 'foreign.db', schema = '', journal = 'delete' }: ForeignFile,
  tables: Readonly<Record<string, readonly Row[]>>,
): string {
  const path = join(folder, file);
  const database = new Database(path);
  database.pragma(`journal_mode = ${journal}`);
  database.exec(schema);
  database.exec('begin');
  for (const [table, rows] of Object.entries(tables)) {
    for (const row of rows) {
      const columns = Object.keys(row);
      const values = columns.map(() => '?').join(', ');
      database.prepare(`insert into ${table} (${columns.join(', ')}) values (${values})`).run(...Object.values(row));
    }
  }
  database.exec('commit');
  database.close();
  return path;
}
