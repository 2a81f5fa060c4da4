import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { errorCode, UsageError } from '../../system/base/errors.ts';
import { describeSpecial } from '../../system/base/plain-file.ts';
import { type Connection, findDriver, quoteIdentifier } from '../sqlite/driver.ts';

import { APPLICATION_ID, completeOpening, findSpecial, type Opening } from '../sqlite/file.ts';

/** A row as SQLite gives it. */
export type ExternalRow = Readonly<Record<string, unknown>>;

/** Another program's SQLite file, as it is at one moment. */
export interface ExternalDatabase {
  /** The columns of a table; none: no such table. @throws {UsageError} if reading it would run code from the file */
  columnsOf(table: string): string[];
  select(query: string): Iterable<ExternalRow>;
}

/**
 * Lets a file of another program be read, and nothing of it be changed.
 *
 * @throws {UsageError} when it cannot be read, or is no such file
 */
export async function readExternalDatabase<T>(
  path: string,
  read: (database: ExternalDatabase) => Promise<T>,
  options: Partial<Opening> = {},
): Promise<T> {
  const { driver, busyTimeoutMs: timeoutMs } = completeOpening(options.driver ?? (await findDriver()).driver, options);
  const isUnused = hasNoUser(path);
  const before = fingerprint(path);
  const access = isUnused ? 'immutable' : 'read-only';
  const connection = withPlainErrors(path, () => driver.open(path, { timeoutMs, access }));
  try {
    withPlainErrors(path, () => begin(connection, path));
    const result = await read(openReader(connection, path));
    if (isUnused && fingerprint(path) !== before) throw new UsageError(isInUse(path));
    return result;
  } finally {
    connection.close();
  }
}

/** One transaction, so that all is read as of one moment. */
function begin(connection: Connection, path: string): void {
  // The schema is not trusted, and conditions in it are not checked.
  connection.exec('pragma trusted_schema = off; pragma ignore_check_constraints = on; begin');
  if (Number(connection.pragma('application_id')) === APPLICATION_ID) {
    throw new UsageError(`${path} is an activity log of this runner; name the queue of another system.`);
  }
  // SQLite reads the missing part of a file that was cut off as zeros.
  for (const table of plainTables(connection)) {
    const answer = String(connection.pragma(`quick_check(${quoteIdentifier(table)})`));
    if (answer !== 'ok') throw Object.assign(new Error(answer.replaceAll('\n', ' ')), { code: 'SQLITE_CORRUPT' });
  }
}

/**
 * Tables of which nothing is run by reading or checking them. The file may be anybody's: a view, a virtual table or a
 * computed column is a program, which need not end.
 */
function plainTables(connection: Connection): readonly string[] {
  const tables = connection.prepare(
    `select name from sqlite_master where type = 'table' and sql like 'create table %'`,
  );
  const computed = connection.prepare('select 1 from pragma_table_xinfo(?) where hidden <> 0');
  return (tables.all([]) as { readonly name: string }[])
    .map(({ name }) => name)
    .filter((name) => computed.all([name]).length === 0);
}

function openReader(connection: Connection, path: string): ExternalDatabase {
  return {
    columnsOf: (table) => {
      withPlainErrors(path, () => assertPlainTable(connection, path, table));
      const query = `select name from pragma_table_info(${quoteText(table)})`;
      return withPlainErrors(path, () => connection.prepare(query).all([])).map((row) =>
        String((row as ExternalRow).name),
      );
    },
    *select(query) {
      const rows = withPlainErrors(path, () => connection.prepare(query)).iterate([]);
      for (;;) {
        const { done, value } = withPlainErrors(path, () => rows.next());
        if (done) return;
        yield value as ExternalRow;
      }
    },
  };
}

function assertPlainTable(connection: Connection, path: string, table: string): void {
  const isOne = (name: string): boolean => name.toLowerCase() === table.toLowerCase();
  const found = connection.prepare('select name from sqlite_master where lower(name) = lower(?)').all([table]);
  if (found.length === 0 || plainTables(connection).some(isOne)) return;
  throw new UsageError(
    `${table} in ${path} is a view, a virtual table or one with computed columns. Reading it would run what the file ` +
      'says, so only plain tables are read; make one of it with `create table … as select …`, and name that.',
  );
}

function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * Whether no program is writing to a database in WAL mode: its journal is then empty or missing. Reading such a
 * database creates files beside it and leaves them there, unless the connection declares that no program writes.
 */
function hasNoUser(path: string): boolean {
  const header = readHeader(path);
  const isWal = header[18] === 2 && header[19] === 2;
  return isWal && (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

const HEADER_BYTES = 100;
const START = 'SQLite format 3\0';

/** Not for the log of this process: closing the file would drop SQLite's locks on it. */
function readHeader(path: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  withPlainErrors(path, () => {
    const special = findSpecial(path);
    if (special !== null) throw new UsageError(describeSpecial(special));
    const fd = openSync(path, 'r');
    try {
      readSync(fd, header);
    } finally {
      closeSync(fd);
    }
  });
  if (header.toString('latin1', 0, START.length) === START) return header;
  throw new UsageError(`${path} is not an SQLite database; name the file of the queue.`);
}

function fingerprint(path: string): string {
  const files = [path, `${path}-wal`];
  return files
    .map((file) => statSync(file, { throwIfNoEntry: false, bigint: true }))
    .map((stats) => `${stats?.size ?? 0n} ${stats?.mtimeNs ?? 0n}`)
    .join(', ');
}

function isInUse(path: string): string {
  return `${path} was written to while it was read; stop the programs that use it, then try again.`;
}

/** @throws {UsageError} instead of SQLite's own words, or those of the file system */
function withPlainErrors<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof UsageError ? error : describeFailure(path, error);
  }
}

const sentences: readonly (readonly [RegExp, string])[] = [
  [/^ENOENT$/, 'does not exist; check its name'],
  [/^EISDIR$/, 'is a folder; name the SQLite file in it'],
  [/^(EACCES|EPERM)$/, 'cannot be read by this user'],
  [/^SQLITE_NOTADB$/, 'is not an SQLite database, or it is encrypted'],
  [/^SQLITE_CORRUPT/, 'is damaged; `sqlite3 <file> .dump` saves its readable part'],
  [/^SQLITE_(BUSY|LOCKED)/, 'stays locked; stop the programs that use it, then try again'],
  [
    /^SQLITE_(CANTOPEN|READONLY)/,
    'was left in the middle of a write; let its own program open it once, then try again',
  ],
];

function describeFailure(path: string, error: unknown): unknown {
  const [, problem] = sentences.find(([codes]) => codes.test(errorCode(error))) ?? [];
  if (problem === undefined) return error;
  return new UsageError(`${path} ${problem} (${(error as Error).message}).`);
}

/** The table of jobs of a system. */
interface ExpectedTable {
  /** `Bedrock`. */
  readonly system: string;
  readonly table: string;
  readonly needed: readonly string[];
  /** Older versions do not have them yet. */
  readonly optional: readonly string[];
}

/**
 * The columns of the table, all of which are understood.
 *
 * @throws {UsageError} when there is no such table, or it is another one than is expected
 */
function findColumns(
  database: ExternalDatabase,
  { system, table, needed, optional }: ExpectedTable,
): ReadonlySet<string> {
  const found = database.columnsOf(table);
  const lower = new Set(found.map((column) => column.toLowerCase()));
  const missing = needed.filter((column) => !lower.has(column.toLowerCase()));
  if (found.length === 0) rejectTable(system, `there is no table ${table} in it`);
  if (missing.length > 0) rejectTable(system, `its table ${table} has no ${missing.join(', ')}`);
  const known = new Set([...needed, ...optional].map((column) => column.toLowerCase()));
  const unknown = found.filter((column) => !known.has(column.toLowerCase()));
  if (unknown.length > 0) rejectNewer(system, table, unknown);
  return new Set(optional.filter((column) => lower.has(column.toLowerCase())));
}

function rejectTable(system: string, what: string): never {
  throw new UsageError(
    `This is not a queue of ${system}: ${what}; name its SQLite file, and its jobs table with --table.`,
  );
}

/** The meaning of these columns may affect the jobs. */
function rejectNewer(system: string, table: string, unknown: readonly string[]): never {
  throw new UsageError(
    `The table ${table} was made by another version of ${system} than the runner knows: it cannot tell what ` +
      `${unknown.join(', ')} means for the jobs. If it means nothing, make a table without ` +
      `${unknown.length === 1 ? 'that column' : 'those columns'} by \`create table … as select …\`, and name it with --table.`,
  );
}

/** The column as text, exactly: a number beyond 2^53 stays what it is. Null where there is no such column. */
function asText(column: string, isThere = true): string {
  const name = quoteIdentifier(column);
  return isThere ? `cast(${name} as text) as ${name}` : `null as ${name}`;
}

/** The jobs of a Bedrock::Jobs database, to be read as often as one likes. */
interface BedrockRows {
  /**
   * All of them, parents first, else in the order in which they were added: their columns as text, `data`
   * as bytes without what Bedrock keeps there for itself, which has columns of its own.
   */
  jobs(): Iterable<ExternalRow>;
  /** Parents and children only: `id`, `parent` (null: it is no child), `created`, `state`, `isMocked`. */
  relatives(): Iterable<ExternalRow>;
}

const NEEDED = ['created', 'jobID', 'state', 'name', 'nextRun', 'lastRun', 'repeat', 'data'];
const OPTIONAL = ['priority', 'parentJobID', 'retryAfter'];

/** @throws {UsageError} when the table is none of Bedrock's */
export function openBedrockRows(database: ExternalDatabase, table: string): BedrockRows {
  const known = { system: 'Bedrock', table, needed: NEEDED, optional: OPTIONAL };
  const optional = findColumns(database, known);
  const jobs = selectBedrockJobs(table, optional);
  return {
    jobs: () => database.select(jobs),
    relatives: () => (optional.has('parentJobID') ? database.select(selectRelatives(table)) : []),
  };
}

const IS_CHILD = "coalesce(parentJobID, 0) not in (0, '', '0')";

function selectRelatives(table: string): string {
  const name = quoteIdentifier(table);
  return `select cast(jobID as text) as id,
      case when ${IS_CHILD} then cast(parentJobID as text) end as parent,
      cast(created as text) as created, cast(state as text) as state,
      case when json_valid(cast(data as text))
        then json_extract(cast(data as text), '$.mockRequest') is not null end as isMocked
    from ${name}
    where ${IS_CHILD} or jobID in (select parentJobID from ${name} where ${IS_CHILD})
    order by ${name}.created, jobID`;
}

function selectBedrockJobs(table: string, optional: ReadonlySet<string>): string {
  const columns = [
    ...NEEDED.filter((column) => column !== 'data').map((column) => asText(column)),
    ...OPTIONAL.map((column) => asText(column, optional.has(column))),
    "coalesce(nullif(cast(data as text), ''), '{}') as text",
    'created as createdOrder',
    'jobID as idOrder',
  ];
  const jobs = `select ${columns.join(', ')} from ${quoteIdentifier(table)}`;
  const isObject = "case when json_valid(text) then json_type(text) = 'object' else 0 end";
  return `select *, ${EXTRACTED.join(', ')}, cast(${WITHOUT_OWN_KEYS} as blob) as data
    from (select *, ${isObject} as isObject from (${jobs}))
    order by ${IS_CHILD}, createdOrder, idOrder`;
}

/** Bedrock's own keys within a job's data. */
const OWN_KEYS = ['retryAfterCount', 'originalNextRun'];

const EXTRACTED = [...OWN_KEYS, 'mockRequest'].map(
  (key) => `case when isObject then json_extract(text, '$.${key}') end as ${key}`,
);

const HAS_OWN_KEYS = OWN_KEYS.map((key) => `json_type(text, '$.${key}') is not null`).join(' or ');
const OWN_PATHS = OWN_KEYS.map((key) => `'$.${key}'`).join(', ');

/** Numbers stay as they are written there: JavaScript would round Bedrock's own. */
const WITHOUT_OWN_KEYS = `case when isObject and (${HAS_OWN_KEYS}) then json_remove(text, ${OWN_PATHS}) else text end`;

/** The jobs of one of LaterJob's queues, to be read as often as one likes. */
interface LaterJobRows {
  /** The table of transitions that is missing; null: it is there. */
  readonly missingTransitions: string | null;
  /**
   * All of them in the order in which they were added: their columns as text, `data` as bytes, and from
   * the transitions `starts`, `started`, `ended` and `reason`.
   */
  jobs(): Iterable<ExternalRow>;
}

const COLUMNS = ['job_id', 'state_id', 'dte_add', 'retry_count', 'retry_last'];
const DATA = 'job_data';
const LOCK = ['handle', 'lock_timeout'];

/** @throws {UsageError} when the table is none of LaterJob's */
export function openLaterJobRows(database: ExternalDatabase, table: string): LaterJobRows {
  const needed = [...COLUMNS, DATA, ...LOCK];
  findColumns(database, { system: 'LaterJob', table, needed, optional: [] });
  const transitions = transitionsOf(table);
  const hasTransitions = database.columnsOf(transitions).length > 0;
  const jobs = selectLaterJobs(table, hasTransitions ? transitions : null);
  return {
    missingTransitions: hasTransitions ? null : transitions,
    jobs: () => database.select(jobs),
  };
}

/** `later_job_queue` has its transitions in `later_job_transition`. */
function transitionsOf(queue: string): string {
  return queue.replace(/(_queue)?$/, '_transition');
}

const STARTED = 2;
const ENDS = [3, 5];
/** Those that have a reason. */
const EXPLAINED = [3, 4, 5];

function selectLaterJobs(queue: string, transitions: string | null): string {
  const columns = [...COLUMNS, ...LOCK].map((column) => asText(column)).join(', ');
  const data = `cast(${DATA} as blob) as data, json_valid(cast(${DATA} as text)) as isJson`;
  const jobs = `select ${columns}, ${data}, dte_add as addedOrder from ${quoteIdentifier(queue)}`;
  const order = 'order by addedOrder, job_id';
  if (transitions === null) {
    return `select *, 0 as starts, null as started, null as ended, null as reason from (${jobs}) ${order}`;
  }
  return `select jobs.*, coalesce(starts, 0) as starts, started, ended, reason from (${jobs}) as jobs
    left join (${selectTimes(transitions)}) as times on times.job = jobs.job_id
    left join (${selectReasons(transitions)}) as reasons on reasons.job = jobs.job_id ${order}`;
}

function selectTimes(transitions: string): string {
  const when = (states: readonly number[]) => `max(case when state_id in (${states}) then dte_occured end)`;
  return `select cast(job_id as text) as job, sum(state_id = ${STARTED}) as starts,
    ${when([STARTED])} as started, ${when(ENDS)} as ended
    from ${quoteIdentifier(transitions)} where job_id is not null group by 1`;
}

/** SQLite takes the other columns of the row with the maximum. */
function selectReasons(transitions: string): string {
  return `select cast(job_id as text) as job, cast(transition_msg as text) as reason, max(transition_id)
    from ${quoteIdentifier(transitions)} where job_id is not null and state_id in (${EXPLAINED}) group by 1`;
}
