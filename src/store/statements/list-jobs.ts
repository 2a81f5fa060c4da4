import type { JobRow } from '../schema.ts';
import { type ListedJobRow, listedJob } from '../shared/job-columns.ts';
import type { Condition, Dialect } from '../shared/sql/dialect.ts';
import { pagesOf } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { isWaiting, type JobState, type Outcome } from '../words.ts';
import { countingOf } from './counted.ts';
import { hasClaim, hasOpenKey, nextFirst } from './job-rows.ts';

/** Null: its row is gone. */
export type ImportedRow =
  | { readonly key: string; readonly id: number; readonly state: JobState }
  | { readonly key: string; readonly id: null; readonly state: null };

/** Which jobs are meant. */
export interface JobFilter {
  /** Globs over names; undefined: all. */
  readonly patterns?: readonly string[] | undefined;
  readonly states?: readonly JobState[] | undefined;
  /** Waiting jobs only. */
  readonly due?: 'ready' | 'delayed' | undefined;
  readonly parent?: number | undefined;
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  /** Those that were added from `since` on, and before `until`. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly at: number;
}

/** Some of the jobs that a filter chooses. */
interface JobList extends JobFilter {
  readonly order: 'newest' | 'oldest' | 'next' | 'soonest';
  readonly limit: number;
  /** How many rows to skip first. Default 0. */
  readonly offset?: number | undefined;
}

/** A list in the order of numbers. */
export type NumberedList = JobList & { readonly order: 'newest' | 'oldest' };

interface JobSearch {
  /** Searched in data, result and reason as stored; A to Z match in either case. */
  readonly text: string;
  /** Most jobs to look at. */
  readonly most: number;
  /** Called from time to time; true: the search has taken long enough. */
  readonly isLate: () => boolean;
}

interface FoundIds {
  readonly ids: readonly number[];
  /** How many jobs were looked at. */
  readonly looked: number;
  /** The last one of these, from which a search goes on; null: there is no further one. */
  readonly last: number | null;
}

/** Jobs that a verb and a reader treat alike. */
export interface AlikeRow {
  readonly state: JobState;
  readonly is_later: number;
  readonly is_child: number;
  /** The beginning of the reason that the log has for their state. */
  readonly reason: string | null;
  readonly jobs: number;
  /** The highest number of them. */
  readonly last: number;
}

export interface JobCountRow {
  /** The jobs' name without parameters. */
  readonly handler: string;
  readonly state: JobState;
  readonly isDue: boolean;
  readonly jobs: number;
}

export interface JobTotalRow {
  /** The jobs' name without parameters. */
  readonly handler: string;
  /** For runs the outcome; `lost`: the job was deleted before its run ended. */
  readonly what: 'added' | Outcome | 'lost' | 'job-lease-expired' | 'job-buried' | 'job-kicked';
  readonly times: number;
}

/** How often each of these has happened to a job. */
export interface JobCounters {
  readonly reserves: number;
  readonly timeouts: number;
  readonly releases: number;
  readonly buries: number;
  readonly kicks: number;
  readonly crashes: number;
}

/** Questions about many jobs, mostly asked by people. */
export function jobListsOf(db: Statements) {
  const { isIn, fits } = db.dialect;
  return {
    list: (wanted: JobList) => list(db, wanted),
    /** Those of these numbers, in ascending order, as a list has them. */
    listById: async (ids: readonly number[]) => {
      const text = `select ${listedJob} from jobs where tier is null and ${isIn('id')} order by id`;
      return ids.length === 0 ? [] : await db.all<ListedJobRow>(text, [ids]);
    },
    /** Jobs of the list that contain a text, in its order. It reads rows one after another, so it can stop in time. */
    search: (filter: NumberedList, wanted: JobSearch) => search(db, filter, wanted),
    /** The number of jobs that the filter chooses. */
    total: async (filter: JobFilter) => {
      const { ids, values } = await selectIds(db, filter, null);
      return (await db.first<{ jobs: number }>(`select count(*) as jobs from (${ids}) as found`, values))?.jobs ?? 0;
    },
    /** The numbers of the list's jobs, in its order. */
    ids: async (wanted: NumberedList) => {
      const { ids, values } = await selectIds(db, wanted, wanted);
      const text = `select found_id as id from (${ids}) as found order by ${byFound[wanted.order]} limit ?`;
      return (await db.all<{ id: number }>(text, [...values, wanted.limit])).map(({ id }) => id);
    },
    /** Counts the jobs that the filter chooses, or those of these numbers, by state and reason. */
    alike: async (wanted: JobFilter | readonly number[], at: number) => {
      if (isIds(wanted)) return wanted.length === 0 ? [] : await alike(db, `jobs where ${isIn('id')}`, at, [wanted]);
      const { ids, values } = await selectIds(db, wanted, null);
      return await alike(db, `(${ids}) as found join jobs on jobs.id = found.found_id`, at, values);
    },
    /** By name and state; what waits also by whether it is due at `at`. */
    count: (patterns: readonly string[], at: number) => count(db, fits('name', patterns), at),
    /** The same of all names together. */
    countAll: (at: number) => countAll(db, at),
    /** Counts of events of each handler's jobs since the log began, by name, including jobs that are gone. */
    totals: (patterns: readonly string[]) => {
      const { text, values } = fits('handler', patterns);
      return db.all<JobTotalRow>(`select handler, what, times from totals where ${text} order by handler`, values);
    },
    /** The same of all handlers, where those that were added count the jobs that are gone alone. */
    totalsOfRuns: () =>
      db.all<JobTotalRow>(`select handler, what, times from (${countingOf(db.dialect).totalsOf({})}) as totals`),
    /** Failed jobs that can be queued again, the longest ago first. */
    revivable: (patterns: readonly string[], limit: number) =>
      revivable(db, fits('jobs.name', patterns), fits('other.name', patterns), limit),
    /** Jobs that wait for their time, the next ones first. */
    delayed: async (patterns: readonly string[], limit: number, at: number) => {
      const { text, values } = fits('name', patterns);
      const rows = await db.all<{ id: number }>(
        `select id from jobs where ready = 0 and run_at > ? and ${text} order by run_at, id limit ?`,
        [at, ...values, limit],
      );
      return rows.map(({ id }) => id);
    },
    /** Counted from runs and events. */
    counters: (id: number) => counters(db, id),
    /** Jobs whose unique key begins like this, and those that were once imported under such a key. */
    imported: (prefix: string) =>
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

const ordersOf = (dialect: Dialect) =>
  ({ newest: 'id desc', oldest: 'id', next: nextFirst(dialect), soonest: 'run_at, id' }) as const;

const byFound = { newest: 'found_id desc', oldest: 'found_id' } as const;

/** Up to this many jobs, sorting them costs less than looking for them among all others. */
const FEW = 1_000;

async function list(db: Statements, wanted: JobList): Promise<ListedJobRow[]> {
  const { limit, offset = 0, order } = wanted;
  const { ids, values } = await selectIds(db, wanted, { order, limit: limit + offset });
  const from =
    db.dialect.name === 'sqlite'
      ? `jobs where id in (${ids})`
      : `(${ids}) as found join jobs on jobs.id = found.found_id`;
  return await db.all<ListedJobRow>(
    `select ${listedJob} from ${from} order by ${ordersOf(db.dialect)[order]} limit ? offset ?`,
    [...values, limit, offset],
  );
}

/**
 * Sorts numbers from an index alone; whole rows are read only of those that are wanted.
 *
 * @param first null: all, in any order
 */
async function selectIds(
  db: Statements,
  filter: JobFilter,
  first: Pick<JobList, 'order' | 'limit'> | null,
): Promise<{ ids: string; values: readonly unknown[] }> {
  const { patterns, states, due, parent, at } = filter;
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
  if (due !== undefined) {
    const isDue = `run_at ${due === 'ready' ? '<=' : '>'} ?`;
    and(states?.every(isWaiting) ? isDue : `(${isDue} or state not in ('queued', 'retrying'))`, at);
  }
  if (parent !== undefined) and('parent_id = ?', parent);
  if (filter.before !== undefined) and('id < ?', filter.before);
  if (filter.after !== undefined) and('id > ?', filter.after);
  if (filter.since !== undefined) and('created_at >= ?', filter.since);
  if (filter.until !== undefined) and('created_at < ?', filter.until);
  const sources = await sourcesFor(db, filter, first?.order ?? null);
  const sorted = first === null ? '' : `order by ${ordersOf(db.dialect)[first.order]} limit ?`;
  const parts = sources.map(
    ({ from, condition }, index) =>
      `select found_id from (select id as found_id from ${from} where ${[...where, condition].join(' and ')}
       ${sorted}) as part_${index}`,
  );
  const bound = first === null ? values : [...values, first.limit];
  return { ids: parts.join(' union all '), values: sources.flatMap(() => bound) };
}

/** Jobs that are found by an index, and the condition that goes with it. */
interface Source {
  readonly from: string;
  readonly condition: string;
}

/**
 * Sources in which to look for jobs. Among many, the newest are found soonest from the table's end, and the oldest from
 * its beginning; a few failed jobs among a million are found by their index.
 */
async function sourcesFor(
  db: Statements,
  { patterns, states }: JobFilter,
  order: JobList['order'] | null,
): Promise<readonly Source[]> {
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

/** How many jobs a search takes from the list at once; how many of them it reads at once. */
const IDS_AT_ONCE = 2_000;
const JOBS_AT_ONCE = 200;

/** After this many bytes of text, which take a few milliseconds, the clock is read. */
const BYTES_AT_ONCE = 1_048_576;

/** The texts of a job are read with their size, unless they are longer together. */
const SMALL_BYTES = 4_096;

/** A longer text is not searched: only plain SQL writes one, and it would have to be held in memory. */
const LONGEST_TEXT = 4 * 1_048_576;

const searched = ['data', 'result', 'reason'] as const;

const textsIf = (condition: (column: string) => string): string =>
  searched.map((column) => `case when ${condition(column)} then ${column} end as ${column}`).join(', ');

const bytesOfAll = searched.map((column) => `coalesce(octet_length(${column}), 0)`).join(' + ');

const smallTexts = `id, ${bytesOfAll} as bytes, ${textsIf(() => `${bytesOfAll} <= ${SMALL_BYTES}`)}`;

const longTexts = `id, ${textsIf((column) => `octet_length(${column}) <= ${LONGEST_TEXT}`)}`;

type Texts = Pick<JobRow, 'id' | (typeof searched)[number]>;

/** Some jobs of a list that are searched, in its order. */
interface SearchedPart {
  readonly ids: readonly number[];
  readonly texts: ReadonlyMap<number, Texts>;
  /** The list has no job after them. */
  readonly isLast: boolean;
}

/**
 * Looks through jobs part by part, sizes first, so that no part takes long. A search by `like` in the log takes time in
 * proportion to the length of the text times the length of the needle.
 */
async function search(db: Statements, filter: NumberedList, { text, most, isLate }: JobSearch): Promise<FoundIds> {
  const contains = finderOf(text);
  const matching: number[] = [];
  let looked = 0;
  let last: number | null = null;
  for await (const { ids, texts, isLast } of eachPart(db, filter, most)) {
    for (const id of ids) {
      if (matching.length >= filter.limit) break;
      looked += 1;
      last = isLast && id === ids.at(-1) ? null : id;
      const job = texts.get(id);
      if (job !== undefined && searched.some((column) => contains(job[column]))) matching.push(id);
    }
    if (matching.length >= filter.limit || isLate()) break;
  }
  return { ids: matching, looked, last };
}

async function* eachPart(db: Statements, filter: NumberedList, most: number): AsyncGenerator<SearchedPart> {
  const read = async <Row extends Texts>(what: string, ids: readonly number[]) => {
    const selecting = `select ${what} from jobs where ${db.dialect.isIn('id')}`;
    const rows = ids.length === 0 ? [] : await db.all<Row>(selecting, [ids]);
    return new Map(rows.map((row) => [row.id, row]));
  };
  let after: Pick<JobFilter, 'before' | 'after'> = {};
  for (let left = most; left > 0; left -= IDS_AT_ONCE) {
    const limit = Math.min(left, IDS_AT_ONCE);
    const page = await jobListsOf(db).ids({ ...filter, ...after, limit });
    const end = page.length < limit ? page.at(-1) : undefined;
    for (const some of pagesOf(page, { most: JOBS_AT_ONCE, mostSize: JOBS_AT_ONCE, sizeOf: () => 1 })) {
      const small = await read<Texts & { readonly bytes: number }>(smallTexts, some);
      const sizeOf = (id: number): number => Number(small.get(id)?.bytes ?? 0);
      for (const ids of pagesOf(some, { mostSize: BYTES_AT_ONCE, sizeOf })) {
        const long = ids.filter((id) => sizeOf(id) > SMALL_BYTES);
        const texts = new Map([...small, ...(await read(longTexts, long))]);
        yield { ids, texts, isLast: end !== undefined && ids.includes(end) };
      }
    }
    if (page.length < limit) return;
    after = filter.order === 'newest' ? { before: page.at(-1) } : { after: page.at(-1) };
  }
}

function isIds(wanted: JobFilter | readonly number[]): wanted is readonly number[] {
  return Array.isArray(wanted);
}

/** Enough of a reason to tell causes apart. */
const LONGEST_REASON = 300;

async function alike(
  db: Statements,
  from: string,
  at: number,
  values: readonly unknown[],
): Promise<readonly AlikeRow[]> {
  return await db.all<AlikeRow>(
    `select state, is_later, is_child, reason, count(*) as jobs, max(id) as last from (
       select jobs.id, state, case when run_at > ? then 1 else 0 end as is_later,
         case when parent_id is null then 0 else 1 end as is_child, substr(reason, 1, ${LONGEST_REASON}) as reason
       from ${from}) as each_job
     group by state, is_later, is_child, reason`,
    [at, ...values],
  );
}

/** Finds a text in others; A to Z match in either case, and other letters only themselves. */
function finderOf(text: string): (other: string | null) => boolean {
  const [needle, lower] = [foldCase(text), text.toLowerCase()];
  // Other letters depend on their neighbours, or become several.
  const isAscii = needle.length === text.length;
  return (other) => {
    if (other === null || other.length < text.length) return false;
    return !(isAscii && !other.toLowerCase().includes(lower)) && foldCase(other).includes(needle);
  };
}

/** The text's bytes, A to Z as a to z. */
function foldCase(text: string): Buffer {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (byte >= 65 && byte <= 90) bytes[at] = byte + 32;
  }
  return bytes;
}

/** By their whole names first, which most jobs share: each is cut once. */
async function count(db: Statements, fit: Condition, at: number): Promise<JobCountRow[]> {
  const { dialect } = db;
  const rows = await db.all<Omit<JobCountRow, 'isDue'> & { is_due: number }>(
    `select ${dialect.handlerOf('name')} as handler, state, is_due, ${dialect.integer('sum(jobs)')} as jobs
     from (select name, state, case when run_at <= ? then 1 else 0 end as is_due, count(*) as jobs
       from jobs where tier is null and ${fit.text} group by 1, 2, 3) as named
     group by 1, 2, 3 order by 1`,
    [at, ...fit.values],
  );
  return rows.map(({ is_due, ...row }) => ({ ...row, isDue: is_due === 1 }));
}

/** Ended jobs are counted in an index that has their states. */
async function countAll(db: Statements, at: number): Promise<Omit<JobCountRow, 'handler'>[]> {
  const rows = await db.all<Omit<JobCountRow, 'isDue'> & { is_due: number }>(
    `select state, 0 as is_due, count(*) as jobs from jobs where finished_at is not null and tier is null group by 1
     union all select state, case when run_at <= ? then 1 else 0 end, count(*)
       from jobs where finished_at is null and tier is null group by 1, 2`,
    [at],
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

async function counters(db: Statements, id: number): Promise<JobCounters> {
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
