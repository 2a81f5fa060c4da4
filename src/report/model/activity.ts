import { type RawBuilder, sql } from 'kysely';
import type { LogView } from '../../discovery/site.ts';
import type { ActivityEvent, JobState, Outcome, WorkerState } from '../../store/words.ts';
import { now } from '../../system/base/clock.ts';
import { matchGlob } from '../../system/base/glob.ts';
import { field, person, quoting, record, shown, type Values } from '../../system/base/record.ts';
import { DAY_MS, HOUR_MS, inPages } from '../../system/base/values.ts';
import type { OpenWindow } from '../text/filters.ts';
import { describeEvent } from '../text/words.ts';

/** One transition of a job. */
export const jobActivityRecord = record(null, {
  at: shown.instant,
  event: shown.text.like('job-finished'),
  detail: field.text.like('exit code 3').orNull,
  /** A detail besides the reason. */
  warning: quoting.orNull.about('Of a run that ended'),
  run: shown.integer.orNull.from('runId'),
  by: person.orNull.from('actor'),
});

export interface JobActivity extends Values<typeof jobActivityRecord> {
  readonly event: ActivityEvent;
}

/** One transition of any job or worker. */
export const activityRecord = record(null, {
  ...jobActivityRecord.fields,
  job: shown.integer.orNull.from('jobId'),
  name: shown.text.like('mail/welcome').orNull.about("The job's name; null: no job, or a deleted one"),
  worker: shown.integer.orNull.from('workerId'),
  host: shown.text.like('web3').orNull.about("The worker's machine; null: no worker, or a deleted one"),
});

export interface Activity extends Values<typeof activityRecord> {
  readonly event: ActivityEvent;
  /** The job stands for a script of a tier, and is none of the queue. */
  readonly isOfScript: boolean;
  readonly place: ActivityPlace;
}

/** The position of a transition in the order of all: its instant, its kind, its number within the kind. */
export type ActivityPlace = readonly [atMs: number, rank: number, number: number];

interface ActivityFilter extends Partial<OpenWindow> {
  readonly workerId?: number | undefined;
  readonly jobId?: number | undefined;
  /** Only these events. Default: all. */
  readonly events?: readonly string[] | undefined;
}

export interface ActivityQuery extends ActivityFilter {
  /** Only what somebody did who is recorded. */
  readonly isByPeople?: boolean | undefined;
  readonly order: 'newest' | 'oldest';
  readonly limit: number;
  /** Number of entries to skip first. Default 0. */
  readonly offset?: number | undefined;
  /** Only what follows this in the order asked for. */
  readonly after?: ActivityPlace | undefined;
}

/** From one look to the next, further away. */
const GROWTH = 8;

/**
 * Selects what happened to all jobs and workers, or to the wanted ones, as the view `activity` does. The view would be
 * sorted whole. This asks each table, by an index, for a stretch of time, and goes further and further away.
 */
export async function selectActivity(log: LogView, query: ActivityQuery): Promise<Activity[]> {
  const { order, limit, offset = 0 } = query;
  const within = await findBounds(log, query);
  const found: Row[] = [];
  for (const stretch of query.jobId === undefined ? stretchesOf(within, order) : [within]) {
    const left = offset + limit - found.length;
    if (left <= 0) break;
    const rows: Row[] = [];
    for (const source of sourcesFor(query)) rows.push(...(await source(log, { ...query, ...stretch, limit: left })));
    found.push(...rows.toSorted(order === 'newest' ? (one, other) => compare(other, one) : compare).slice(0, left));
  }
  return await addNames(log, found.slice(offset));
}

/** How many entries fit, of which each is looked at. */
export async function countActivity({ db }: LogView, query: ActivityFilter): Promise<number> {
  const { sinceMs, untilMs, workerId, jobId, events: wanted } = query;
  const conditions = [
    ...(sinceMs === undefined ? [] : [sql<boolean>`at >= ${sinceMs}`]),
    ...(untilMs === undefined ? [] : [sql<boolean>`at < ${untilMs}`]),
    ...(workerId === undefined ? [] : [sql<boolean>`worker_id = ${workerId}`]),
    ...(jobId === undefined ? [] : [sql<boolean>`job_id = ${jobId}`]),
    ...(wanted === undefined ? [] : [sql<boolean>`event in (${sql.join(wanted)})`]),
  ];
  const where = conditions.length === 0 ? sql`` : sql`where ${sql.join(conditions, sql` and `)}`;
  const { rows } = await sql<{ entries: number }>`select count(*) as entries from activity ${where}`.execute(db);
  return Number(rows[0]?.entries ?? 0);
}

/** From then on, before then. */
interface Stretch {
  readonly since: number;
  readonly until: number;
}

interface Bounds extends Stretch {
  /** About where there is something, at the end at which the search begins. */
  readonly start: number;
}

const FIRST = Number.MIN_SAFE_INTEGER;
const LAST = Number.MAX_SAFE_INTEGER;

async function findBounds(log: LogView, { sinceMs, untilMs, workerId, order, after }: ActivityQuery): Promise<Bounds> {
  const life = workerId === undefined ? { since: FIRST, until: LAST } : await selectLife(log, workerId);
  const isNewest = order === 'newest';
  const since = Math.max(sinceMs ?? FIRST, life.since, after !== undefined && !isNewest ? after[0] : FIRST);
  const until = Math.min(untilMs ?? LAST, life.until, after !== undefined && isNewest ? after[0] + 1 : LAST);
  const start = isNewest ? Math.min(until, now()) : since > FIRST ? since : await selectFirstInstant(log);
  return { since, until, start };
}

/** Selects a worker's stretch of time. It ends a day after the worker: until then others may find its jobs. */
async function selectLife({ db }: LogView, id: number): Promise<Stretch> {
  const query = db.selectFrom('workers').select(['started_at', 'finished_at']).where('id', '=', id);
  const worker = await query.executeTakeFirst();
  if (worker === undefined) return { since: FIRST, until: FIRST };
  const { started_at: since, finished_at: end } = worker;
  return { since, until: end === null ? LAST : Math.max(since, end) + DAY_MS };
}

async function selectFirstInstant({ db }: LogView): Promise<number> {
  const { rows } = await sql<{ at: number | null }>`select min(at) as at from (
    select (select min(started_at) from runs where script_id = scripts.id) as at from scripts
    union all select min(created_at) from jobs where tier is null
    union all select min(at) from events
    union all select min(started_at) from (select started_at from workers order by id limit 1) as worker) as first`.execute(
    db,
  );
  return rows[0]?.at ?? 0;
}

function* stretchesOf({ since, until, start }: Bounds, order: ActivityQuery['order']): Generator<Stretch> {
  let reached = order === 'newest' ? until : since;
  for (let lengthMs = HOUR_MS; reached !== (order === 'newest' ? since : until); lengthMs *= GROWTH) {
    const isAll = lengthMs > 1e15;
    if (order === 'newest') {
      const next = isAll ? since : Math.max(since, Math.min(reached, start) - lengthMs);
      yield { since: next, until: reached };
      reached = next;
    } else {
      const next = isAll ? until : Math.min(until, Math.max(reached, start) + lengthMs);
      yield { since: reached, until: next };
      reached = next;
    }
    if (since >= until) return;
  }
}

/** Only events and calls tell who did it, only ends of runs have a warning. */
type Row = Omit<Activity, 'name' | 'host' | 'isOfScript' | OfSome> & Partial<Pick<Activity, OfSome>>;

type OfSome = 'actor' | 'warning';

function compare({ place: one }: Row, { place: other }: Row): number {
  return one[0] - other[0] || one[1] - other[1] || one[2] - other[2];
}

type Asked = ActivityQuery & Stretch;

type Source = (log: LogView, asked: Asked) => Promise<Row[]>;

/** At the same instant a worker or a job begins, then runs begin and end, then follows what else there is. */
const ranks = { begun: 0, added: 1, run: 2, event: 3, ended: 4 } as const;

/** The condition that a source has for its rows: within the stretch, behind the place, in the order. */
function conditionOf(asked: Asked, rank: number, at: RawBuilder<unknown>, number: RawBuilder<unknown>) {
  const { since, until, after, order } = asked;
  const within = sql`${at} >= ${since} and ${at} < ${until}`;
  if (after === undefined) return within;
  const sign = order === 'newest' ? sql`<` : sql`>`;
  const [atMs, lastRank, lastNumber] = after;
  const isBehind = order === 'newest' ? rank < lastRank : rank > lastRank;
  if (rank === lastRank) {
    return sql`${within} and (${at} ${sign} ${atMs} or (${at} = ${atMs} and ${number} ${sign} ${lastNumber}))`;
  }
  return isBehind ? sql`${within} and ${at} ${sign}= ${atMs}` : sql`${within} and ${at} ${sign} ${atMs}`;
}

/** Sorted, and no more than are wanted. */
function endOf({ order, limit }: Asked, at: RawBuilder<unknown>, id: RawBuilder<unknown>) {
  const direction = order === 'newest' ? sql`desc` : sql`asc`;
  return sql`order by ${at} ${direction}, ${id} ${direction} limit ${limit}`;
}

interface WorkerRow {
  readonly id: number;
  readonly at: number;
  readonly state: WorkerState;
  readonly reason: string | null;
  readonly actor: string | null;
}

const startedAt = sql.ref('started_at');
const finishedAt = sql.ref('finished_at');

/** Those of each tier, and those of the queue, which have none, by the index that they are in. */
const workersWhere = (columns: RawBuilder<unknown>, condition: RawBuilder<unknown>) => sql`
  select ${columns} from (
    with recursive names (name) as (
      select min(tier) from workers
      union all select (select min(tier) from workers where tier > names.name) from names where names.name is not null)
    select name from names where name is not null) as tiers cross join workers
  where workers.tier = tiers.name and ${condition}
  union all select ${columns} from workers where tier is null and ${condition}`;

/** As the index of those that last long has them: what else ends does so within an hour. */
const isLong = sql`finished_at - started_at not between 0 and 3600000`;
const isShort = sql`finished_at - started_at between 0 and 3600000`;

const workersBegun: Source = async ({ db }, asked) => {
  if (asked.jobId !== undefined) return [];
  const id = sql.ref('workers.id');
  const within = conditionOf(asked, ranks.begun, startedAt, id);
  const condition = asked.isByPeople ? sql`actor is not null and ${within}` : within;
  const columns = sql`workers.id, started_at as at, state, reason, actor`;
  const all =
    asked.workerId === undefined
      ? workersWhere(columns, condition)
      : sql`select ${columns} from workers where ${id} = ${asked.workerId} and ${condition}`;
  const { rows } = await sql<WorkerRow>`select * from (${all}) as begun
    ${endOf(asked, sql.ref('at'), sql.ref('id'))}`.execute(db);
  return rows.map(({ id: workerId, at, state, reason, actor }) => {
    const isSkipped = state === 'skipped';
    const event = isSkipped ? 'worker-skipped' : 'worker-started';
    const place = [at, ranks.begun, workerId] as const;
    return { atMs: at, event, detail: isSkipped ? reason : null, runId: null, workerId, jobId: null, actor, place };
  });
};

const workersEnded: Source = async ({ db }, asked) => {
  if (asked.jobId !== undefined) return [];
  const id = sql.ref('workers.id');
  const condition = sql`state in ('finished', 'crashed') and ${conditionOf(asked, ranks.ended, finishedAt, id)}`;
  const columns = sql`workers.id, finished_at as at, state, reason`;
  const all =
    asked.workerId === undefined
      ? sql`${workersWhere(columns, sql`${nearby(asked)} and ${isShort} and ${condition}`)}
          union all select ${columns} from workers where ${isLong} and ${condition}`
      : sql`select ${columns} from workers where ${id} = ${asked.workerId} and ${condition}`;
  const { rows } = await sql<Omit<WorkerRow, 'actor'>>`select * from (${all}) as ended
    ${endOf(asked, sql.ref('at'), sql.ref('id'))}`.execute(db);
  return rows.map(({ id: workerId, at, state, reason: detail }) => {
    const event = state === 'crashed' ? 'worker-crashed' : 'worker-finished';
    return { atMs: at, event, detail, runId: null, workerId, jobId: null, place: [at, ranks.ended, workerId] as const };
  });
};

/** Begin of the runs that may end within the stretch, except long ones. */
function nearby({ since, until }: Stretch) {
  return sql`started_at >= ${since - HOUR_MS} and started_at < ${until}`;
}

const jobsAdded: Source = async ({ db }, asked) => {
  if (asked.workerId !== undefined) return [];
  const id = sql.ref('id');
  const at = sql.ref('created_at');
  const isOfJob = asked.jobId === undefined ? sql`true` : sql`id = ${asked.jobId}`;
  const { rows } = await sql<{ id: number; at: number }>`select id, created_at as at from jobs
    where tier is null and ${isOfJob} and ${conditionOf(asked, ranks.added, at, id)} ${endOf(asked, at, id)}`.execute(
    db,
  );
  return rows.map(({ id: jobId, at: atMs }) => {
    const place = [atMs, ranks.added, jobId] as const;
    return { atMs, event: 'job-queued', detail: null, runId: null, workerId: null, jobId, place };
  });
};

interface RunRow {
  readonly id: number;
  readonly at: number;
  readonly workerId: number | null;
  readonly jobId: number;
  readonly outcome: Outcome;
  readonly leftJob: JobState | null;
  readonly reason: string | null;
  readonly warning: string | null;
}

const runColumns = sql`runs.id, worker_id as "workerId", job_id as "jobId", outcome, left_job as "leftJob", reason, warning`;

/**
 * The table to search. For one job it is `runs`, by its index of jobs; for all jobs it is joined with scripts, by its
 * index of scripts: see {@link ofRuns}.
 */
const runsFrom = ({ jobId }: Asked) => (jobId === undefined ? sql`scripts cross join runs` : sql`runs`);

function ofWanted({ jobId, workerId }: Asked) {
  const ofJob = jobId === undefined ? sql`true` : sql`job_id = ${jobId}`;
  return workerId === undefined ? ofJob : sql`${ofJob} and worker_id = ${workerId}`;
}

const ofRuns = (asked: Asked) =>
  asked.jobId === undefined ? sql`script_id = scripts.id and ${ofWanted(asked)}` : ofWanted(asked);

const runsStarted: Source = async ({ db }, asked) => {
  const condition = conditionOf(asked, ranks.run, startedAt, sql`2 * runs.id`);
  const { rows } = await sql<RunRow>`select ${runColumns}, started_at as at from ${runsFrom(asked)}
    where ${ofRuns(asked)} and ${condition} ${endOf(asked, startedAt, sql.ref('runs.id'))}`.execute(db);
  return rows.map(({ id: runId, at, workerId, jobId }) => {
    const place = [at, ranks.run, 2 * runId] as const;
    return { atMs: at, event: 'run-started', detail: null, runId, workerId, jobId, place };
  });
};

const runsEnded: Source = async ({ db }, asked) => {
  const condition = conditionOf(asked, ranks.run, finishedAt, sql`2 * runs.id + 1`);
  const columns = sql`${runColumns}, finished_at as at`;
  const near = asked.jobId === undefined ? sql`${nearby(asked)} and ${isShort}` : isShort;
  const { rows } = await sql<RunRow>`select * from (
    select ${columns} from ${runsFrom(asked)} where ${ofRuns(asked)} and ${near} and ${condition}
    union all select ${columns} from runs where ${ofWanted(asked)} and ${isLong} and ${condition}) as ended
    ${endOf(asked, sql.ref('at'), sql.ref('id'))}`.execute(db);
  return rows.map(({ id: runId, at, workerId, jobId, outcome, leftJob, reason: detail, warning }) => {
    const place = [at, ranks.run, 2 * runId + 1] as const;
    return { atMs: at, event: eventOf(outcome, leftJob), detail, warning, runId, workerId, jobId, place };
  });
};

/** As the view has it. */
function eventOf(outcome: Outcome, leftJob: JobState | null): ActivityEvent {
  if (outcome === 'released' && leftJob !== 'cancelled') return 'job-released';
  return `job-${leftJob ?? 'finished'}` as ActivityEvent;
}

function ofKind({ events: wanted, isByPeople = false }: Asked) {
  const ofEvents = wanted === undefined ? sql`true` : sql`event in (${sql.join(wanted)})`;
  return isByPeople ? sql`${ofEvents} and actor is not null` : ofEvents;
}

const events: Source = async ({ db }, asked) => {
  const [at, id] = [sql.ref('at'), sql.ref('id')];
  const { rows } = await sql<Omit<Row, 'place' | 'atMs'> & { id: number; at: number }>`
    select id, at, event, detail, run_id as "runId", worker_id as "workerId", job_id as "jobId", actor from events
    where ${ofWanted(asked)} and ${ofKind(asked)} and ${conditionOf(asked, ranks.event, at, id)}
    ${endOf(asked, at, id)}`.execute(db);
  return rows.map(({ id: number, at: atMs, ...row }) => ({
    ...row,
    atMs,
    place: [atMs, ranks.event, number] as const,
  }));
};

/** The sources of activity, each with the events that come from it alone; absent: further ones come from it, too. */
const sources: readonly (readonly [source: Source, events?: readonly ActivityEvent[]])[] = [
  [workersBegun, ['worker-started', 'worker-skipped']],
  [jobsAdded, ['job-queued']],
  [runsStarted, ['run-started']],
  [runsEnded],
  [events],
  [workersEnded, ['worker-finished', 'worker-crashed']],
];

function sourcesFor({ events: wanted, isByPeople = false }: ActivityQuery): readonly Source[] {
  return sources
    .filter(([source]) => !isByPeople || source === events || source === workersBegun)
    .filter(([, told]) => wanted === undefined || told === undefined || told.some((event) => wanted.includes(event)))
    .map(([source]) => source);
}

async function addNames({ db }: LogView, rows: readonly Row[]): Promise<Activity[]> {
  const jobsById = new Map<number, { readonly name: string; readonly tier: string | null }>();
  for (const ids of inPages(distinct(rows.map(({ jobId }) => jobId)))) {
    const jobs = await db.selectFrom('jobs').select(['id', 'name', 'tier']).where('id', 'in', ids).execute();
    for (const job of jobs) jobsById.set(job.id, job);
  }
  const hosts = new Map<number, string>();
  for (const ids of inPages(distinct(rows.map(({ workerId }) => workerId)))) {
    const workers = db.selectFrom('workers').innerJoin('hosts', 'hosts.id', 'host_id');
    const found = await workers.select(['workers.id', 'host']).where('workers.id', 'in', ids).execute();
    for (const { id, host } of found) hosts.set(id, host);
  }
  return rows.map((each) => {
    const { name, tier } = jobsById.get(each.jobId ?? 0) ?? { name: null, tier: null };
    const host = hosts.get(each.workerId ?? 0) ?? null;
    return { ...each, host, actor: each.actor ?? null, warning: each.warning ?? null, name, isOfScript: tier !== null };
  });
}

function distinct(ids: readonly (number | null)[]): number[] {
  return [...new Set(ids.flatMap((id) => id ?? []))];
}

/** Which entries are wanted besides their time, job and worker. */
interface ActivityFilter {
  /** The name of a script or a job, as a glob; of an entry without a name its detail. */
  readonly subject?: string | undefined;
  /** The person who did it, as a glob: `*` is any person on record. */
  readonly by?: string | undefined;
  /** A text in the entry, in any case. */
  readonly search?: string | undefined;
}

type ActivityEvents = Pick<ActivityQuery, 'events'>;

/** Entries that are read at once. */
const PAGE = 500;

/**
 * Looks through the activity for what a filter chooses. It reads entry after entry, so it stops after a while.
 *
 * @returns the place at which to go on; null: there is nothing further
 */
export async function findActivity(
  log: LogView,
  { limit, ...query }: ActivityQuery & ActivityFilter,
  isLate: () => boolean,
): Promise<{ readonly items: readonly Activity[]; readonly last: ActivityPlace | null }> {
  const items: Activity[] = [];
  let last = query.after;
  do {
    const page = await selectActivity(log, { ...query, isByPeople: query.by !== undefined, after: last, limit: PAGE });
    for (const entry of page) {
      last = entry.place;
      if (isWanted(entry, query)) items.push(entry);
      if (items.length === limit) return { items, last };
    }
    if (page.length < PAGE) return { items, last: null };
  } while (!isLate());
  return { items, last: last ?? null };
}

function isWanted(entry: Activity, { events, subject, by, search }: ActivityFilter & ActivityEvents): boolean {
  const { name, actor, event, detail, warning, host } = entry;
  // The end of a run is known by its outcome alone, not by its event.
  if (events?.includes(event) === false) return false;
  if (subject !== undefined && !matchGlob(subject, name ?? detail ?? '')) return false;
  if (by !== undefined && !matchGlob(by, actor ?? '')) return false;
  if (search === undefined) return true;
  const needle = search.toLowerCase();
  return [describeEvent(event), name, detail, warning, actor, host].some((text) =>
    text?.toLowerCase().includes(needle),
  );
}
