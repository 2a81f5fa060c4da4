import { inPages } from '../../../system/base/values.ts';
import type {
  FoundJobs,
  ImportedRow,
  JobCounterRow,
  JobCountRow,
  JobFilter,
  JobHead,
  JobSearch,
  JobStore,
  JobTotalRow,
  ListedJobRow,
  NewJobRow,
  SizedJobRow,
} from '../../contract/jobs.ts';
import type { JobRow } from '../../schema.ts';
import type { Sync } from '../../shared/areas.ts';
import { countedUntil } from '../../shared/counted.ts';
import { headOfJob, listedJob, sizedJob } from '../../shared/job-columns.ts';
import { JobsSearch, type SearchedJob, type SizedJob, searchedColumns, sizeColumns } from '../../shared/search.ts';
import type { SqliteStatements } from '../session.ts';
import { counting, keepCounts, keepLateJobs } from './counted.ts';

const newColumns = [
  ...['name', 'state', 'data', 'priority', 'scheduled_for', 'run_at', 'retry', 'repeat'],
  ...['missed_policy', 'unique_key', 'concurrency_key', 'parent_id', 'on_child_failure', 'lease_ms'],
  ...['created_at', 'attempts', 'started_at', 'finished_at', 'result', 'reason'],
] as const satisfies readonly (keyof NewJobRow)[];

const waitingStates = `('queued', 'retrying')`;

export function sqliteJobs(db: SqliteStatements): Sync<JobStore> {
  return { ...changes(db), ...families(db), ...reads(db) };
}

type Part<Names extends keyof JobStore> = Pick<Sync<JobStore>, Names>;

function changes(db: SqliteStatements): Part<'add' | 'lock' | 'change' | 'updateData' | 'delete'> {
  return {
    add: (jobs, at) => add(db, jobs, at),
    // A transaction has the write lock from its beginning.
    lock: () => {},
    change: (changes, at) => {
      for (const { id, set } of changes) change(db, id, set, at);
    },
    updateData: (id, token, data) =>
      db.run(`update jobs set data = ? where id = ? and claim_token = ? and state in ('claimed', 'running')`, [
        data,
        id,
        token,
      ]) > 0,
    delete: (ids) => deleteJobs(db, ids),
  };
}

function families(db: SqliteStatements): Part<'children' | 'hasOpenChildren' | 'markReported'> {
  return {
    children: (parentId) =>
      db.all<SizedJobRow>(`select ${sizedJob} from jobs where parent_id = ? order by id`, [parentId]),
    hasOpenChildren: (parentId) =>
      db.first(
        `select 1 from jobs where parent_id = ?
           and state in ('queued', 'claimed', 'running', 'retrying', 'paused') limit 1`,
        [parentId],
      ) !== undefined,
    markReported: (parentId) => {
      db.run(
        `update jobs set reported_to_parent = 1
         where parent_id = ? and finished_at is not null and reported_to_parent = 0`,
        [parentId],
      );
    },
  };
}

function reads(
  db: SqliteStatements,
): Omit<Sync<JobStore>, keyof ReturnType<typeof changes> | keyof ReturnType<typeof families>> {
  const byId = <Row>(what: string, ids: readonly number[]): Row[] => {
    const text = `select ${what} from jobs where tier is null and id in (select value from json_each(?)) order by id`;
    return [...inPages(ids)].flatMap((page) => db.all<Row>(text, [JSON.stringify(page)]));
  };
  return {
    byId: (ids) => byId<JobHead>(headOfJob, ids),
    wholeById: (ids) => byId<JobRow>('*', ids),
    byUniqueKeys: (keys) => {
      const text = `select ${headOfJob} from jobs
        where unique_key in (select value from json_each(?)) and finished_at is null`;
      return [...inPages(keys)].flatMap((page) => db.all<JobHead>(text, [JSON.stringify(page)]));
    },
    mergeData: (id, patch) =>
      db.first<{ data: string }>('select json_patch(data, ?) as data from jobs where id = ?', [patch, id])?.data ??
      patch,
    list: (filter) => list(db, filter),
    listById: (ids) => byId<ListedJobRow>(listedJob, ids),
    search: (filter, wanted) => search(db, filter, wanted),
    count: (patterns, at) => count(db, patterns, at),
    totals: (patterns) =>
      db.all<JobTotalRow>(`select handler, what, times from totals where ${fits('handler')} order by handler`, [
        JSON.stringify(patterns),
      ]),
    revivable: (patterns, limit) => revivable(db, patterns, limit),
    delayed: (patterns, limit, at) =>
      db
        .all<{ id: number }>(
          `select id from jobs where ready = 0 and run_at > ? and ${fits('name')}
           order by run_at, id limit ?`,
          [at, JSON.stringify(patterns), limit],
        )
        .map(({ id }) => id),
    counters: (id) => counters(db, id),
    imported: (prefix) =>
      db.all<ImportedRow>(
        `select detail as key, jobs.id as id, jobs.state as state
           from events left join jobs on jobs.id = events.job_id
           where event = 'job-imported' and detail is not null
         union all select unique_key, id, state from jobs
           where tier is null and unique_key >= ? and substr(unique_key, 1, length(?)) = ?`,
        [prefix, prefix, prefix],
      ),
  };
}

/** How many rows one statement adds: each takes half the time of a statement of its own. */
const ROWS_AT_ONCE = 20;

/**
 * Columns that no row sets are left out, which are most of them. The last row also asks until when all is counted, so
 * that one job takes one statement.
 */
function add(db: SqliteStatements, jobs: readonly NewJobRow[], at: number): number[] {
  const last = jobs.at(-1);
  if (last === undefined) return [];
  const columns = newColumns.filter((column) => jobs.some((row) => (row[column] ?? null) !== null));
  const others = jobs.length - 1;
  const whole = others - (others % ROWS_AT_ONCE);
  for (let start = 0; start < others; ) {
    const rows = jobs.slice(start, start + (start < whole ? ROWS_AT_ONCE : 1));
    const values = rows.flatMap((row) => valuesOf(row, columns, at));
    db.run(insertInto(columns, rows.length), values);
    start += rows.length;
  }
  const [{ id, until }] = db.all<{ id: number; until: number }>(
    `${insertInto(columns, 1)} returning id, ${countedUntil} as until`,
    valuesOf(last, columns, at),
  ) as [{ id: number; until: number }];
  // They are numbered in their order, without a gap, as nobody else writes meanwhile.
  const ids = jobs.map((_, index) => id - others + index);
  if (jobs.some(({ created_at }) => created_at < until)) keepLateJobs(db, ids, until);
  return ids;
}

function insertInto(columns: readonly string[], rows: number): string {
  const row = `(${'?, '.repeat(columns.length)}?)`;
  return `insert into jobs (${columns.join(', ')}, ready) values ${Array(rows).fill(row).join(', ')}`;
}

function valuesOf(row: NewJobRow, columns: readonly (keyof NewJobRow)[], at: number): unknown[] {
  const waits = row.state === 'queued' || row.state === 'retrying';
  return [...columns.map((column) => row[column]), waits ? Number(row.run_at <= at) : null];
}

/** As many texts as there are sets of columns: a dozen. */
function change(db: SqliteStatements, id: number, set: Partial<JobRow>, at: number): void {
  const columns = Object.keys(set).filter((column) => set[column as keyof JobRow] !== undefined);
  if (columns.length === 0) return;
  const values = columns.map((column) => set[column as keyof JobRow]);
  const assigned = columns.map((column) => `${column} = ?`).join(', ');
  if (set.state === undefined && set.run_at === undefined) {
    db.run(`update jobs set ${assigned} where id = ?`, [...values, id]);
    return;
  }
  db.run(
    `update jobs set ${assigned}, ready = case
       when tier is null and coalesce(?, state) in ${waitingStates} then coalesce(?, run_at) <= ? end
     where id = ?`,
    [...values, set.state ?? null, set.run_at ?? null, at, id],
  );
}

const listed = 'in (select value from json_each(?))';
const rowsOfJobs = { jobs: `id ${listed}`, runs: `job_id ${listed}`, events: `job_id ${listed}` };
const keepCountsOfJobs = keepCounts(rowsOfJobs);
const keepUncountedOfJobs = counting.keepUncounted(rowsOfJobs);

export function deleteJobs(db: SqliteStatements, ids: readonly number[]): string[] {
  const files: string[] = [];
  for (const page of inPages(ids)) {
    const list = JSON.stringify(page);
    db.run(keepCountsOfJobs, [list, list, list]);
    db.run(keepUncountedOfJobs, [list, list, list]);
    const rows = db.all<{ output_file: string }>(
      `select output_file from runs
       where job_id in (select value from json_each(?)) and output_file is not null`,
      [list],
    );
    db.run('delete from jobs where id in (select value from json_each(?))', [list]);
    files.push(...rows.map(({ output_file }) => output_file));
  }
  return files;
}

/** Whether a name fits one of the globs in a JSON list. */
function fits(column: string): string {
  return `exists (select 1 from json_each(?) where ${column} glob value)`;
}

const orders = {
  newest: 'id desc',
  oldest: 'id',
  next: 'priority desc, run_at, id',
  soonest: 'run_at, id',
} as const;

/** Up to this many jobs, sorting them costs less than looking for them among all others. */
const FEW = 1_000;

function list(db: SqliteStatements, filter: JobFilter): ListedJobRow[] {
  const { limit, offset = 0, order } = filter;
  const { ids, values } = selectIds(db, { ...filter, limit: limit + offset });
  return db.all<ListedJobRow>(
    `select ${listedJob} from jobs where id in (${ids}) order by ${orders[order]} limit ? offset ?`,
    [...values, limit, offset],
  );
}

/** Sorted are numbers from an index alone; whole rows are read only of those that are wanted. */
function selectIds(
  db: SqliteStatements,
  filter: JobFilter,
): { readonly ids: string; readonly values: readonly unknown[] } {
  const { patterns, states, due, parent, order, limit, at } = filter;
  const where = ['tier is null'];
  const values: unknown[] = [];
  const add = (condition: string, ...bound: unknown[]): void => {
    where.push(condition);
    values.push(...bound);
  };
  const isOfNames = patterns?.every((pattern) => !/[*?[]/.test(pattern)) === true;
  if (states !== undefined) {
    add('state in (select value from json_each(?))', JSON.stringify(states));
  }
  if (isOfNames) add('name in (select value from json_each(?))', JSON.stringify(patterns));
  else if (patterns !== undefined) add(fits('name'), JSON.stringify(patterns));
  if (due === 'ready') add('run_at <= ?', at);
  if (due === 'delayed') add('run_at > ?', at);
  if (parent !== undefined) add('parent_id = ?', parent);
  if (filter.before !== undefined) add('id < ?', filter.before);
  if (filter.after !== undefined) add('id > ?', filter.after);
  if (filter.since !== undefined) add('created_at >= ?', filter.since);
  if (filter.until !== undefined) add('created_at < ?', filter.until);
  const sources = sourcesFor(db, states, order, isOfNames);
  const parts = sources.map(
    ({ from, condition }) =>
      `select id from (select id from ${from}
       where ${[...where, condition].join(' and ')} order by ${orders[order]} limit ?)`,
  );
  return { ids: parts.join(' union all '), values: sources.flatMap(() => [...values, limit]) };
}

function search(db: SqliteStatements, filter: JobFilter, wanted: JobSearch): FoundJobs {
  const { ids, values } = selectIds(db, { ...filter, limit: wanted.most });
  const order = orders[filter.order];
  const all = db.all<{ id: number }>(`select id from jobs where id in (${ids}) order by ${order}`, values);
  const search = new JobsSearch(
    all.map(({ id }) => id),
    filter.limit,
    wanted,
  );
  const read = <Row>(what: string, some: readonly number[]): Row[] =>
    db.all<Row>(`select ${what} from jobs where id in (select value from json_each(?))`, [JSON.stringify(some)]);
  while (!search.isOver) {
    const next = search.next();
    for (const part of search.partsOf(next, read<SizedJob>(sizeColumns, next))) {
      search.look(part, read<SearchedJob>(searchedColumns, part));
      if (search.isOver) break;
    }
  }
  return search.end(read<ListedJobRow>(listedJob, search.found));
}

/** The table or index in which jobs are looked for, and the condition that goes with it. */
interface Source {
  readonly from: string;
  readonly condition: string;
}

/**
 * Among many, the newest are found soonest from the table's end, the oldest from its beginning; the few failed
 * ones among a million by their index.
 */
function sourcesFor(
  db: SqliteStatements,
  states: readonly string[] | undefined,
  order: JobFilter['order'],
  isOfNames: boolean,
): readonly Source[] {
  const anywhere = [{ from: 'jobs', condition: 'true' }];
  const sources = states === undefined ? null : sourcesOf(states, isOfNames);
  if (sources === null) return anywhere;
  if (order !== 'newest' && order !== 'oldest') return sources;
  const few = sources.map(
    ({ from, condition }) =>
      db.first<{ jobs: number }>(
        `select count(*) as jobs from (select 1 from ${from}
           where tier is null and ${condition} limit ${FEW + 1})`,
      )?.jobs ?? 0,
  );
  return few.every((jobs) => jobs <= FEW) ? sources : anywhere;
}

/** Null: none has all of these states. */
function sourcesOf(states: readonly string[], isOfNames: boolean): readonly Source[] | null {
  const isWithin = (others: readonly string[]) => states.every((state) => others.includes(state));
  if (isWithin(['claimed', 'running'])) {
    return [{ from: 'jobs indexed by jobs_claimed', condition: 'claim_token is not null' }];
  }
  if (isWithin(['queued', 'retrying'])) {
    const ready = isOfNames ? 'jobs_ready_by_name' : 'jobs_ready';
    return [
      { from: `jobs indexed by ${ready}`, condition: 'ready = 1' },
      { from: 'jobs indexed by jobs_blocked', condition: 'ready = 2' },
      { from: 'jobs indexed by jobs_delayed', condition: 'ready = 0' },
    ];
  }
  if (!isWithin(['finished', 'failed', 'cancelled'])) return null;
  const quoted = states.map((state) => `'${state}'`).join(', ');
  return [
    {
      from: 'jobs indexed by jobs_ended',
      condition: `finished_at is not null and state in (${quoted})`,
    },
  ];
}

function count(db: SqliteStatements, patterns: readonly string[], at: number): JobCountRow[] {
  const rows = db.all<Omit<JobCountRow, 'isDue'> & { is_due: number }>(
    `select substr(name, 1, instr(name || '?', '?') - 1) as handler, state, run_at <= ? as is_due, count(*) as jobs
     from jobs where tier is null and ${fits('name')} group by 1, 2, 3 order by 1`,
    [at, JSON.stringify(patterns)],
  );
  return rows.map(({ is_due, ...row }) => ({ ...row, isDue: is_due === 1 }));
}

/**
 * Among failed jobs that share a unique key, only the one that failed first; no job whose key or parent is not free.
 */
function revivable(db: SqliteStatements, patterns: readonly string[], limit: number): number[] {
  const failed = `state = 'failed' and finished_at is not null and tier is null and ${fits('jobs.name')}`;
  const list = JSON.stringify(patterns);
  const rows = db.all<{ id: number }>(
    `select id from jobs where ${failed}
       and (unique_key is null or (
         not exists (select 1 from jobs as other
           where other.unique_key = jobs.unique_key and other.finished_at is null)
         and not exists (select 1 from jobs as other where other.unique_key = jobs.unique_key
           and other.state = 'failed' and (other.finished_at, other.id) < (jobs.finished_at, jobs.id)
           and exists (select 1 from json_each(?) where other.name glob value))))
       and (parent_id is null or exists (select 1 from jobs as parent
         where parent.id = jobs.parent_id and parent.finished_at is null))
     order by finished_at, id limit ?`,
    [list, list, limit],
  );
  return rows.map(({ id }) => id);
}

/** A run that was ended because its lease had expired does not count as crashed. */
const isExpired = `exists (select 1 from events where events.job_id = runs.job_id
  and event = 'job-lease-expired' and events.at = runs.finished_at)`;

function counters(db: SqliteStatements, id: number): JobCounterRow {
  const runs = db.first<Record<'reserves' | 'timeouts' | 'releases' | 'crashes', number>>(
    `select count(*) as reserves, coalesce(sum(outcome = 'released'), 0) as releases,
       coalesce(sum(outcome = 'timed-out' or (outcome = 'crashed' and ${isExpired})), 0) as timeouts,
       coalesce(sum(outcome = 'crashed' and not ${isExpired}), 0) as crashes
     from runs where job_id = ?`,
    [id],
  ) ?? { reserves: 0, timeouts: 0, releases: 0, crashes: 0 };
  const events = db.first<Record<'buries' | 'kicks', number>>(
    `select coalesce(sum(event = 'job-buried'), 0) as buries,
       coalesce(sum(event = 'job-kicked'), 0) as kicks from events where job_id = ?`,
    [id],
  ) ?? { buries: 0, kicks: 0 };
  return { ...runs, ...events };
}
