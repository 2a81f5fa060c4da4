import { inPages } from '../../system/base/values.ts';
import type {
  FoundJobs,
  ImportedRow,
  JobChange,
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
} from '../contract/jobs.ts';
import type { JobRow } from '../schema.ts';
import { countedUntil } from '../shared/counted.ts';
import { headOfJob, listedJob, sizedJob } from '../shared/job-columns.ts';
import { JobsSearch, type SearchedJob, type SizedJob, searchedColumns, sizeColumns } from '../shared/search.ts';
import { type Condition, type Dialect, rowMarks } from '../shared/sql/dialect.ts';
import { lock } from '../shared/sql/mutex.ts';
import { addRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { keepCounted, keepLateJobs, LateRows } from './counted.ts';
import { hasClaim, jobColumns, type RowChange, updateJobs } from './job-rows.ts';

const newColumns = [
  ...['name', 'state', 'data', 'priority', 'scheduled_for', 'run_at', 'retry', 'repeat'],
  ...['missed_policy', 'unique_key', 'concurrency_key', 'parent_id', 'on_child_failure', 'lease_ms'],
  ...['created_at', 'attempts', 'started_at', 'finished_at', 'result', 'reason'],
] as const satisfies readonly (keyof NewJobRow)[];

export function jobsOf(db: Statements): JobStore {
  return { ...changes(db), ...families(db), ...reads(db) };
}

type Part<Names extends keyof JobStore> = Pick<JobStore, Names>;

function changes(db: Statements): Part<'add' | 'lock' | 'change' | 'updateData' | 'delete'> {
  return {
    add: (jobs, at) => add(db, jobs, at),
    lock: (ids) => lockJobs(db, ids),
    change: (list, at) => change(db, list, at),
    updateData: async (id, token, data) =>
      (await db.run(`update jobs set data = ? where id = ? and claim_token = ? and state in ('claimed', 'running')`, [
        data,
        id,
        token,
      ])) > 0,
    delete: (ids) => deleteJobs(db, ids),
  };
}

function families(db: Statements): Part<'children' | 'hasOpenChildren' | 'markReported'> {
  return {
    children: (parentId) =>
      db.all<SizedJobRow>(`select ${sizedJob} from jobs where parent_id = ? order by id ${locked(db)}`, [parentId]),
    hasOpenChildren: async (parentId) =>
      (await db.first(
        `select 1 as one from jobs where parent_id = ?
           and state in ('queued', 'claimed', 'running', 'retrying', 'paused') limit 1`,
        [parentId],
      )) !== undefined,
    markReported: async (parentId) => {
      await db.run(
        `update jobs set reported_to_parent = 1
         where parent_id = ? and finished_at is not null and reported_to_parent = 0`,
        [parentId],
      );
    },
  };
}

/** In a transaction, locks the jobs that it reads: no other session changes them before its end. */
function locked({ inTransaction, dialect }: Statements): string {
  return inTransaction ? dialect.forUpdate : '';
}

function reads(db: Statements): Omit<JobStore, keyof ReturnType<typeof changes> | keyof ReturnType<typeof families>> {
  const { isIn } = db.dialect;
  const fitAny = (column: string, patterns: readonly string[]): Condition => db.dialect.fits(column, patterns);
  const byId = (what: string) => `select ${what} from jobs where tier is null and ${isIn('id')} order by id`;
  return {
    byId: (ids) => db.all<JobHead>(`${byId(headOfJob)} ${locked(db)}`, [ids]),
    wholeById: (ids) => db.all<JobRow>(`${byId(jobColumns)} ${locked(db)}`, [ids]),
    byUniqueKeys: (keys) => byUniqueKeys(db, keys),
    mergeData: async (id, patch) => {
      const row = await db.first<{ data: string }>(`select data from jobs where id = ? ${locked(db)}`, [id]);
      if (row === undefined) return patch;
      return (await import('./merge-json.ts')).mergeJson(row.data, patch);
    },
    list: (filter) => list(db, filter),
    listById: async (ids) => (ids.length === 0 ? [] : await db.all<ListedJobRow>(byId(listedJob), [ids])),
    search: (filter, wanted) => search(db, filter, wanted),
    count: (patterns, at) => count(db, fitAny('name', patterns), at),
    totals: (patterns) => {
      const { text, values } = fitAny('handler', patterns);
      return db.all<JobTotalRow>(`select handler, what, times from totals where ${text} order by handler`, values);
    },
    revivable: (patterns, limit) => revivable(db, fitAny('jobs.name', patterns), fitAny('other.name', patterns), limit),
    delayed: async (patterns, limit, at) => {
      const { text, values } = fitAny('name', patterns);
      const rows = await db.all<{ id: number }>(
        `select id from jobs where ready = 0 and run_at > ? and ${text} order by run_at, id limit ?`,
        [at, ...values, limit],
      );
      return rows.map(({ id }) => id);
    },
    counters: (id) => counters(db, id),
    imported: (prefix) =>
      db.all<ImportedRow>(
        `select detail as "key", jobs.id as id, jobs.state as state
           from events left join jobs on jobs.id = events.job_id
           where event = 'job-imported' and detail is not null
         union all select unique_key, id, state from jobs
           where tier is null and unique_key >= ? and substr(unique_key, 1, ${[...prefix].length}) = ?`,
        [prefix, prefix],
      ),
  };
}

/**
 * A session that adds several keys holds the first ones while it waits for the next: two sessions that did so in
 * different orders would wait for each other. A session that adds one key holds no other, and needs no turn.
 */
async function byUniqueKeys(db: Statements, keys: readonly string[]): Promise<JobHead[]> {
  if (keys.length > 1 && db.inTransaction) await lock(db, 'unique-keys');
  const text = `select ${headOfJob} from jobs where ${hasOpenKey(db.dialect, 'jobs', db.dialect.isIn)} ${locked(db)}`;
  const jobs: JobHead[] = [];
  for (const page of inPages(keys)) jobs.push(...(await db.all<JobHead>(text, [page])));
  return jobs;
}

/** Whether a job has not ended and has a unique key that is wanted. */
function hasOpenKey({ name }: Dialect, job: string, isWanted: (column: string) => string): string {
  if (name === 'mysql') return isWanted(`${job}.open_key`);
  return `${isWanted(`${job}.unique_key`)} and ${job}.finished_at is null`;
}

/** Columns that no row sets are left out, which are most of them. */
async function add(db: Statements, jobs: readonly NewJobRow[], at: number): Promise<number[]> {
  if (jobs.length === 0) return [];
  const set = newColumns.filter((column) => jobs.some((row) => (row[column] ?? null) !== null));
  const columns = [...set, 'ready'];
  const rows = jobs.map((row) => [...set.map((column) => row[column]), readyOf(row, at)]);
  if (db.dialect.name === 'sqlite') return await addOnSqlite(db, jobs, { columns, rows });
  db.noteWork();
  const ids = await addRows(db, 'jobs', columns, rows);
  await new LateRows(db).jobs(
    ids,
    jobs.map(({ created_at }) => created_at),
  );
  return ids;
}

/** How many rows one statement of SQLite adds: each takes half the time of a statement of its own. */
const ROWS_AT_ONCE = 20;

interface Rows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

/** The last row also asks until when all is counted, so that one job takes one statement. */
async function addOnSqlite(db: Statements, jobs: readonly NewJobRow[], { columns, rows }: Rows): Promise<number[]> {
  const insertOf = (amount: number): string =>
    `insert into jobs (${columns.join(', ')}) values ${rowMarks(columns.length, amount)}`;
  const others = rows.length - 1;
  const whole = others - (others % ROWS_AT_ONCE);
  for (let start = 0; start < others; ) {
    const some = rows.slice(start, start + (start < whole ? ROWS_AT_ONCE : 1));
    await db.run(insertOf(some.length), some.flat());
    start += some.length;
  }
  const text = `${insertOf(1)} returning id, ${countedUntil} as until`;
  const { id, until } = (await db.first<{ id: number; until: number }>(text, rows[others])) as {
    id: number;
    until: number;
  };
  // They are numbered in their order, without a gap, as nobody else writes meanwhile.
  const ids = jobs.map((_, index) => id - others + index);
  const late = ids.filter((_, index) => (jobs[index] as NewJobRow).created_at < until);
  await keepLateJobs(db, late);
  return ids;
}

function readyOf({ state, run_at }: NewJobRow, at: number): number | null {
  return state === 'queued' || state === 'retrying' ? Number(run_at <= at) : null;
}

/** By one statement, and in ascending order: so nobody waits for whoever waits for him. */
async function lockJobs(db: Statements, ids: readonly number[]): Promise<void> {
  const text = lockTexts[db.dialect.name];
  if (ids.length > 0 && text !== null) await db.all(text, [ids, ids]);
}

const lockTexts = {
  // A transaction has the write lock from its beginning.
  sqlite: null,
  postgres: `select id from jobs where id = any(array(
      select unnest(?::bigint[]) union select parent_id from jobs where id = any(?) and parent_id is not null))
    order by id for update`,
  // Without its limit, the order of what is joined is forgotten.
  mysql: `select jobs.id from (
      select id as wanted from jobs where id in (?)
      union select parent_id from jobs where id in (?) and parent_id is not null
      order by wanted limit 1000000000) as family
    straight_join jobs on jobs.id = family.wanted for update`,
} as const;

/** Changes of one job come in their order; of several, those of the same columns are one statement. */
async function change(db: Statements, list: readonly JobChange[], at: number): Promise<void> {
  const groups = new Map<string, RowChange[]>();
  const changed = new Set<number>();
  const flush = async (): Promise<void> => {
    for (const [key, group] of groups) await changeAlike(db, key, group, at);
    groups.clear();
    changed.clear();
  };
  for (const { id, set, isChildless = false } of list) {
    const columns = Object.keys(set).filter((column) => set[column as keyof typeof set] !== undefined);
    if (columns.length === 0) continue;
    if (changed.has(id)) await flush();
    changed.add(id);
    const key = `${isChildless ? 'childless' : ''}:${columns.sort().join()}`;
    const group = groups.get(key) ?? [];
    group.push({ id, set });
    groups.set(key, group);
  }
  await flush();
}

async function changeAlike(db: Statements, key: string, group: readonly RowChange[], at: number): Promise<void> {
  const [childless, names = ''] = key.split(':');
  const columns = names.split(',') as (keyof JobRow)[];
  const isMoved = columns.includes('state') || columns.includes('run_at');
  // A session that waits for the end of a job gets a notice as well, though later.
  if (isMoved && group.some(({ set }) => !isNobodysWork(set.state))) db.noteWork();
  await updateJobs(db, columns, group, { readyAt: isMoved ? at : undefined, areChildless: childless !== '' });
}

function isNobodysWork(state: JobRow['state'] | undefined): boolean {
  return state === 'finished' || state === 'failed' || state === 'cancelled' || state === 'running';
}

export async function deleteJobs(db: Statements, ids: readonly number[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const { isIn } = db.dialect;
  const ofJob = isIn('job_id');
  await keepCounted(db, { jobs: isIn('id'), runs: ofJob, events: ofJob }, [ids, ids, ids]);
  const rows = await db.all<{ output_file: string }>(
    `select output_file from runs where ${ofJob} and output_file is not null`,
    [ids],
  );
  await db.run(`delete from jobs where ${isIn('id')}`, [ids]);
  return rows.map(({ output_file }) => output_file);
}

/** By priority, then by time: in the order of their index. */
export const nextFirst = ({ name }: Dialect): string => `${name === 'mysql' ? 'urgency' : 'priority desc'}, run_at, id`;

const ordersOf = (dialect: Dialect) =>
  ({ newest: 'id desc', oldest: 'id', next: nextFirst(dialect), soonest: 'run_at, id' }) as const;

/** Up to this many jobs, sorting them costs less than looking for them among all others. */
const FEW = 1_000;

async function list(db: Statements, filter: JobFilter): Promise<ListedJobRow[]> {
  const { limit, offset = 0, order } = filter;
  const { ids, values } = await selectIds(db, { ...filter, limit: limit + offset });
  const from =
    db.dialect.name === 'sqlite'
      ? `jobs where id in (${ids})`
      : `(${ids}) as found join jobs on jobs.id = found.found_id`;
  return await db.all<ListedJobRow>(
    `select ${listedJob} from ${from} order by ${ordersOf(db.dialect)[order]} limit ? offset ?`,
    [...values, limit, offset],
  );
}

/** Sorted are numbers from an index alone; whole rows are read only of those that are wanted. */
async function selectIds(db: Statements, filter: JobFilter): Promise<{ ids: string; values: readonly unknown[] }> {
  const { patterns, states, due, parent, order, limit, at } = filter;
  const { isIn } = db.dialect;
  const where = ['tier is null'];
  const values: unknown[] = [];
  const and = (condition: string, ...bound: readonly unknown[]): void => {
    where.push(condition);
    values.push(...bound);
  };
  if (states !== undefined) and(isIn('state'), states);
  if (patterns !== undefined) {
    const fitAny = db.dialect.fits('name', patterns);
    and(fitAny.text, ...fitAny.values);
  }
  if (due === 'ready') and('run_at <= ?', at);
  if (due === 'delayed') and('run_at > ?', at);
  if (parent !== undefined) and('parent_id = ?', parent);
  if (filter.before !== undefined) and('id < ?', filter.before);
  if (filter.after !== undefined) and('id > ?', filter.after);
  if (filter.since !== undefined) and('created_at >= ?', filter.since);
  if (filter.until !== undefined) and('created_at < ?', filter.until);
  const sources = await sourcesFor(db, filter);
  const parts = sources.map(
    ({ from, condition }, index) =>
      `select found_id from (select id as found_id from ${from} where ${[...where, condition].join(' and ')}
       order by ${ordersOf(db.dialect)[order]} limit ?) as part_${index}`,
  );
  return { ids: parts.join(' union all '), values: sources.flatMap(() => [...values, limit]) };
}

/** Jobs that are found by an index, and the condition that goes with it. */
interface Source {
  readonly from: string;
  readonly condition: string;
}

/**
 * Where the wanted jobs are looked for. Among many, the newest are found soonest from the table's end, the oldest from
 * its beginning; the few failed ones among a million by their index.
 */
async function sourcesFor(db: Statements, { patterns, states, order }: JobFilter): Promise<readonly Source[]> {
  const anywhere = [{ from: 'jobs', condition: '1 = 1' }];
  const areNames = patterns?.every((pattern) => !/[*?[]/.test(pattern)) === true;
  const sources = states === undefined ? null : sourcesOf(db.dialect, states, areNames);
  if (sources === null) return anywhere;
  if (order !== 'newest' && order !== 'oldest') return sources;
  for (const { from, condition } of sources) {
    const row = await db.first<{ jobs: number }>(
      `select count(*) as jobs from (select 1 as one from ${from} where tier is null and ${condition}
       limit ${FEW + 1}) as found`,
    );
    if ((row?.jobs ?? 0) > FEW) return anywhere;
  }
  return sources;
}

/** Null: none has all of these states. */
function sourcesOf(dialect: Dialect, states: readonly string[], areNames: boolean): readonly Source[] | null {
  const isWithin = (others: readonly string[]) => states.every((state) => others.includes(state));
  const source = (sqlite: string, condition: string): Source => ({
    from: dialect.byIndex('jobs', { sqlite }),
    condition,
  });
  if (isWithin(['claimed', 'running'])) return [source('jobs_claimed', hasClaim)];
  if (isWithin(['queued', 'retrying'])) {
    return [
      source(areNames ? 'jobs_ready_by_name' : 'jobs_ready', 'ready = 1'),
      source('jobs_blocked', 'ready = 2'),
      source('jobs_delayed', 'ready = 0'),
    ];
  }
  if (!isWithin(['finished', 'failed', 'cancelled'])) return null;
  const list = states.map((state) => `'${state}'`).join(', ');
  return [source('jobs_ended', `finished_at is not null and state in (${list})`)];
}

async function search(db: Statements, filter: JobFilter, wanted: JobSearch): Promise<FoundJobs> {
  const { ids, values } = await selectIds(db, { ...filter, limit: wanted.most });
  const order = filter.order === 'oldest' ? 'found_id' : 'found_id desc';
  const all = await db.all<{ found_id: number }>(`select found_id from (${ids}) as found order by ${order}`, values);
  const search = new JobsSearch(
    all.map(({ found_id }) => found_id),
    filter.limit,
    wanted,
  );
  const read = async <Row>(what: string, some: readonly number[]): Promise<Row[]> =>
    some.length === 0 ? [] : await db.all<Row>(`select ${what} from jobs where ${db.dialect.isIn('id')}`, [some]);
  while (!search.isOver) {
    const next = search.next();
    for (const part of search.partsOf(next, await read<SizedJob>(sizeColumns, next))) {
      search.look(part, await read<SearchedJob>(searchedColumns, part));
      if (search.isOver) break;
    }
  }
  return search.end(await read<ListedJobRow>(listedJob, search.found));
}

async function count(db: Statements, fit: Condition, at: number): Promise<JobCountRow[]> {
  const rows = await db.all<Omit<JobCountRow, 'isDue'> & { is_due: number }>(
    `select ${db.dialect.handlerOf('name')} as handler, state, case when run_at <= ? then 1 else 0 end as is_due,
       count(*) as jobs
     from jobs where tier is null and ${fit.text} group by 1, 2, 3 order by 1`,
    [at, ...fit.values],
  );
  return rows.map(({ is_due, ...row }) => ({ ...row, isDue: is_due === 1 }));
}

/**
 * Among failed jobs that share a unique key, only the one that failed first; no job whose key or parent is not free.
 */
async function revivable(db: Statements, fit: Condition, otherFits: Condition, limit: number): Promise<number[]> {
  const rows = await db.all<{ id: number }>(
    `select id from jobs where state = 'failed' and finished_at is not null and tier is null and ${fit.text}
       and (unique_key is null or (
         not exists (select 1 from jobs as other
           where ${hasOpenKey(db.dialect, 'other', (key) => `${key} = jobs.unique_key`)})
         and not exists (select 1 from jobs as other where other.unique_key = jobs.unique_key
           and other.state = 'failed' and (other.finished_at, other.id) < (jobs.finished_at, jobs.id)
           and ${otherFits.text})))
       and (parent_id is null or exists (select 1 from jobs as parent
         where parent.id = jobs.parent_id and parent.finished_at is null))
     order by finished_at, id limit ?`,
    [...fit.values, ...otherFits.values, limit],
  );
  return rows.map(({ id }) => id);
}

/** A run that was ended because its lease had expired does not count as crashed. */
const isExpired = `exists (select 1 from events where events.job_id = runs.job_id
  and event = 'job-lease-expired' and events.at = runs.finished_at)`;

const times = (condition: string): string => `coalesce(sum(case when ${condition} then 1 else 0 end), 0)`;

async function counters(db: Statements, id: number): Promise<JobCounterRow> {
  const runs = await db.first<Record<'reserves' | 'timeouts' | 'releases' | 'crashes', number>>(
    `select count(*) as reserves, ${times(`outcome = 'released'`)} as releases,
       ${times(`outcome = 'timed-out' or (outcome = 'crashed' and ${isExpired})`)} as timeouts,
       ${times(`outcome = 'crashed' and not ${isExpired}`)} as crashes
     from runs where job_id = ?`,
    [id],
  );
  const events = await db.first<Record<'buries' | 'kicks', number>>(
    `select ${times(`event = 'job-buried'`)} as buries, ${times(`event = 'job-kicked'`)} as kicks
     from events where job_id = ?`,
    [id],
  );
  return { ...{ reserves: 0, timeouts: 0, releases: 0, crashes: 0, buries: 0, kicks: 0 }, ...runs, ...events };
}
