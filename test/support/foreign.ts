import { join } from 'node:path';
import Database from 'better-sqlite3';
import { type LogColumn, type LogTable, logTables } from '../../src/store/move/rows.ts';
import { openSqliteStore } from '../../src/store/sqlite/open.ts';
import { createStateFolder, stateFolderOf } from '../../src/system/place/state-folder.ts';

/** What one engine or driver may keep otherwise than another. */
export const texts = [
  ...['', ' ', 'a ', "it's", '"quoted"', 'back\\slash', '\\\\', '%_?', '$1 ? ::text', ':name @x -- ; /* */'],
  ...['Ünïcödé', '🙂👩‍👩‍👧', 'e\u0301', '\u202e\u2028', '\u0001\u001f\u007f', '\r\n\t', '\ufffd\ufeff'],
  ...['NULL', 'null', 'true', '1e5', '00', '2026-01-01', '{"a":[1,null,"\\u0000"]}', '\\x00', '\u0300'],
];
const long = '🙂 sixty-four kilobytes '.repeat(2_600);
const numbers = ['0', '1', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808'];
const reals = [
  0,
  -0,
  0.1 + 0.2,
  1 / 3,
  90.33333333333333,
  5e-324,
  1.7976931348623157e308,
  -1e-7,
  123456789012345680000,
];
const blobs = [
  Buffer.alloc(0),
  Buffer.from([0, 1, 255, 39, 92]),
  Buffer.from(Array.from({ length: 1_024 }, (_, n) => n % 256)),
];

/** What only some values may be in; others would be refused by a server, too. */
const plain: Readonly<Record<string, unknown>> = {
  'jobs.state': 'finished',
  'jobs.ready': null,
  'jobs.missed_policy': 'once',
  'jobs.on_child_failure': 'resume',
  'jobs.priority': 9007199254740991,
  'jobs.attempts': 9007199254740991,
  'jobs.run_at': 8640000000000000,
  'jobs.created_at': 8640000000000000,
  'jobs.started_at': -8640000000000000,
  'jobs.scheduled_for': 0,
  'jobs.lease_expires_at': null,
  'jobs.claim_token': null,
  'jobs.lease_ms': 8640000000000,
  'jobs.tier': null,
  'jobs.finished_at': 5,
  'jobs.parent_id': 4,
  'jobs.reported_to_parent': 1,
  'jobs.lease_extended': 0,
  'jobs.links_met': 1,
  'workers.state': 'finished',
  'workers.triggered_by': 'due',
  'workers.host_id': 1,
  'runs.outcome': 'failed',
  'runs.measured_by': 'self',
  'pauses.kind': 'fail-fast',
  'deviations.measure': 'count',
  'incidents.severity': 'warning',
  'incidents.ending': 'gone',
  'deliveries.kind': 'alert',
  'uncounted.what': 'run',
  'tokens.permission': 'read',
};

/** Columns that MySQL gives 64 characters. */
const short = new Set(
  [
    'host',
    'skip_code',
    'code',
    'fingerprint',
    'kind',
    'what',
    'hash',
    'event',
    'content_hash',
    'signal',
    'left_job',
    'outcome',
    'measured_by',
  ].concat(['runner_version', 'node_version', 'host_pattern']),
);

/** And 512. */
const named = /^(name|tier|boot_id|handler|subject|channel|retry|unique_key|concurrency_key|output_file|spool_id)$/;

const ROWS = 60;

/** A log in this root with rows of all tables, as hard to copy as they can be. */
export async function writeHostileLog(root: string, { isBroken = false } = {}): Promise<void> {
  const state = stateFolderOf(root);
  createStateFolder(state);
  await (await openSqliteStore(state)).close();
  const database = new Database(state.database);
  database.exec('begin');
  for (const table of logTables) {
    const insert = database.prepare(
      `insert into "${table.name}" (${table.columns.map(({ name }) => `"${name}"`)}) values (${table.columns.map(() => '?')})`,
    );
    for (let row = 1; row <= ROWS; row += 1) insert.run(table.columns.map((column) => makeValue(table, column, row)));
  }
  if (isBroken) {
    database.prepare('update runs set error_message = ? where id <= 2').run('a\0b');
    database.prepare('update runs set max_rss_bytes = 1.5 where id = 4').run();
    database.prepare('update events set detail = ? where id = 5').run(Buffer.from('bytes'));
  }
  // The highest numbers are those of rows that are gone; a job's is kept as the store does.
  database.exec(`delete from workers where id = 60; delete from jobs where id = 60;
    insert into sqlite_sequence (name, seq) values ('jobs', 60); commit`);
  database.close();
}

function makeValue({ name: table, key }: LogTable, { name, kind }: LogColumn, row: number): unknown {
  const path = `${table}.${name}`;
  if (path in plain) return plain[path];
  const isKey =
    key.includes(name) || ['name', 'unique_key', 'spool_id', 'hash', 'fingerprint', 'content_hash'].includes(name);
  const isNumbered = /(^|_)(id)$/.test(name) || (key.includes(name) && kind === 'integer');
  if (isNumbered) return row;
  if (kind === 'integer') return BigInt(numbers[row % numbers.length] as string);
  if (kind === 'real') return reals[row % reals.length];
  if (kind === 'blob') return row % 4 === 0 ? null : blobs[row % blobs.length];
  const text = texts[row % texts.length] as string;
  if (path === 'jobs.data') return JSON.stringify({ text, row });
  if (isKey) return `${text}#${row}`;
  if (short.has(name) || named.test(name)) return text;
  return row % 7 === 0 ? long : text;
}

/** All that a file holds, exactly; with what its rows' numbers have reached. */
export function dumpLog(path: string): Readonly<Record<string, readonly unknown[]>> {
  const database = new Database(path, { readonly: true });
  try {
    const names = database
      .prepare<[], string>(
        `select name from sqlite_master where type = 'table' and name not in ('moved', 'sqlite_stat1') order by name`,
      )
      .pluck()
      .all();
    return Object.fromEntries(
      names.map((name) => {
        // A number of jobs below that of the newest one says nothing.
        const said = `where name <> 'jobs' or seq > (select coalesce(max(id), 0) from jobs)`;
        const text = `select * from "${name}" ${name === 'sqlite_sequence' ? said : ''}`;
        const rows = database.prepare(text).raw().safeIntegers().all() as unknown[][];
        return [name, rows.map(describeRow).sort()];
      }),
    );
  } finally {
    database.close();
  }
}

function describeRow(row: readonly unknown[]): string {
  return row
    .map((cell) => {
      if (Buffer.isBuffer(cell)) return `blob ${cell.toString('hex')}`;
      return typeof cell === 'number' ? `real ${Object.is(cell, -0) ? 0 : cell}` : `${typeof cell} ${cell}`;
    })
    .join('|');
}

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
