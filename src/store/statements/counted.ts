import { HOUR_MS } from '../../system/base/values.ts';
import type { Dialect } from '../shared/sql/dialect.ts';
import { lock, type Statements } from '../shared/sql/statements.ts';

/** Which rows are counted, each as a condition; those of a table that is left out are not. */
interface Counted {
  readonly jobs?: string;
  readonly runs?: string;
  readonly events?: string;
}

/** Whether the beginning and the end are to be counted, each as a condition. */
type Counts = readonly [start: string, end: string];

/** Columns of rows from which metrics are made, in the order of the three below; what follows is up to who asks. */
const measuredColumns = `what, name, worker_id, outcome, left_job, started_at, finished_at, late_ms, service_ms,
  duration_us, cpu_us, max_rss_bytes, warned, counts_start, counts_end`;

/** The greatest of several passes over nulls in PostgreSQL. */
const atLeastZero = (difference: string): string => `case when ${difference} < 0 then 0 else ${difference} end`;

/** When a job of the queue was due is known until it is tried again. */
const dueAt = `coalesce(runs.scheduled_for,
  case when jobs.tier is null and jobs."repeat" is null and jobs.attempts <= 1 then jobs.run_at end)`;

/** How long after its time a first try began. */
export const lateMs = `case when runs.attempt = 1 then ${atLeastZero(`runs.started_at - ${dueAt}`)} end`;

/** From when a job was added on; of one that repeats, from the time that it was for. */
const askedAt = `case when jobs."repeat" is null then jobs.created_at
  else coalesce(runs.scheduled_for, jobs.created_at) end`;

/** Until it finished or failed. */
const serviceMs = `case when jobs.tier is null
    and (runs.left_job = 'failed' or (runs.outcome = 'succeeded' and runs.left_job is null))
  then ${atLeastZero(`runs.finished_at - ${askedAt}`)} end`;

/** Most runs are of scripts. */
const ofHandlers = `script_id in (select id from scripts where name >= 'queue/' and name < 'queue0')`;

const asNumber = (condition: string): string => `case when ${condition} then 1 else 0 end`;

/** Until when all is counted; before anything is, nothing has been. */
export const countedUntil = `coalesce((select done_at from chores where name = 'hours'), -8640000000000000)`;

/** Keeps rows that are measured for whoever closes the next hour. */
const keepMeasured = (rows: string): string => `insert into uncounted (${measuredColumns}) ${rows}`;

/** Statements, in the SQL of an engine, that count the events recorded in rows of jobs, runs and events. */
export function countingOf({ handlerOf, join, integer }: Pick<Dialect, 'handlerOf' | 'join' | 'integer'>) {
  const noInteger = integer('null');

  const runsWithJobs = `runs ${join} jobs on jobs.id = runs.job_id ${join} scripts on scripts.id = runs.script_id`;

  /** The events of these rows by handler, and how often each happened. */
  const countsOf = ({ jobs, runs, events }: Counted): string => {
    const ofJobs = `select ${handlerOf('name')} as handler, 'added' as what, count(*) as times
    from jobs where tier is null and ${jobs} group by 1`;
    const ofRuns = `select substr(scripts.name, 7) as handler, counted.outcome as what, counted.times as times
    from (select script_id, outcome, count(*) as times from runs where ${runs} group by script_id, outcome) as counted
    ${join} scripts on scripts.id = counted.script_id where scripts.name >= 'queue/' and scripts.name < 'queue0'`;
    const ofEvents = `select ${handlerOf('jobs.name')} as handler, event as what, count(*) as times
    from events ${join} jobs on jobs.id = events.job_id
    where jobs.tier is null and event in ('job-lease-expired', 'job-buried', 'job-kicked') and ${events}
    group by 1, 2`;
    return [jobs && ofJobs, runs && ofRuns, events && ofEvents].filter(Boolean).join(' union all ');
  };

  /** Counts of all that has happened to the jobs of each handler since the log began; of jobs as far as they are asked for. */
  const totalsOf = (jobs: Pick<Counted, 'jobs'>): string => `select handler, what, sum(times) as times
    from (select handler, what, times from gone
      union all ${countsOf({ ...jobs, runs: ofHandlers, events: 'true' })}) as counted
    group by handler, what`;

  /**
   * Adds the counts of rows that are about to be deleted to those of deleted rows, in the order that all sessions use.
   */
  const addCounts = (counted: Counted): string =>
    `insert into gone (handler, what, times)
    select handler, case what when 'running' then 'lost' else what end as what, sum(times)
    from (${countsOf(counted)}) as counted group by 1, 2 order by 1, 2`;

  /** @param jobs a condition */
  const measuredJobs = (jobs: string): string =>
    `select 'added' as what, 'queue/' || ${handlerOf('name')} as name, ${noInteger} as worker_id,
      null as outcome, null as left_job, created_at as started_at, ${noInteger} as finished_at, ${noInteger} as late_ms,
      ${noInteger} as service_ms, ${noInteger} as duration_us, ${noInteger} as cpu_us, ${noInteger} as max_rss_bytes,
      0 as warned, 1 as counts_start, 0 as counts_end
    from jobs where tier is null and ${jobs}`;

  /** @param from `runs`, `scripts` and `jobs`, joined, with a condition; its values follow those of `counts` */
  const measuredRuns = (from: string, [start, end]: Counts): string =>
    `select 'run' as what, scripts.name as name, runs.worker_id as worker_id, runs.outcome as outcome,
      runs.left_job as left_job, runs.started_at as started_at, runs.finished_at as finished_at,
      ${lateMs} as late_ms, ${serviceMs} as service_ms, runs.duration_us as duration_us,
      runs.user_cpu_us + runs.system_cpu_us as cpu_us, runs.max_rss_bytes as max_rss_bytes,
      runs.suspect as warned, ${asNumber(start)} as counts_start, ${asNumber(end)} as counts_end
    from ${from}`;

  /** Jobs that failed without a run. A job that was buried while it ran has failed with its run. */
  const measuredEvents = (events: string): string =>
    `select 'failed' as what,
      case when jobs.tier is null then 'queue/' || ${handlerOf('jobs.name')} else jobs.name end as name,
      ${noInteger} as worker_id, null as outcome, 'failed' as left_job, ${noInteger} as started_at,
      events.at as finished_at, ${noInteger} as late_ms,
      case when jobs.tier is null then ${atLeastZero('events.at - jobs.created_at')} end as service_ms,
      ${noInteger} as duration_us, ${noInteger} as cpu_us, ${noInteger} as max_rss_bytes,
      0 as warned, 0 as counts_start, 1 as counts_end
    from events ${join} jobs on jobs.id = events.job_id
    where event in ('job-failed', 'job-buried') and ${events} and not exists (select 1 from runs
      where runs.job_id = events.job_id and runs.finished_at = events.at)`;

  /** Keeps of rows that go what no hour has counted yet. */
  const keepUncounted = ({ jobs, runs, events }: Counted): string => {
    const isOpen = (instant: string): string => `${instant} >= ${countedUntil}`;
    const [start, end] = [isOpen('runs.started_at'), isOpen('runs.finished_at')];
    const parts = [
      jobs && measuredJobs(`${jobs} and ${isOpen('created_at')}`),
      runs && measuredRuns(`${runsWithJobs} where ${runs} and (${start} or ${end})`, [start, end]),
      events && measuredEvents(`${events} and ${isOpen('events.at')}`),
    ];
    return keepMeasured(parts.filter(Boolean).join(' union all '));
  };

  return { runsWithJobs, totalsOf, addCounts, measuredJobs, measuredRuns, measuredEvents, keepUncounted };
}

/**
 * Keeps what is counted of rows, by whomever; to be run before they go.
 *
 * @param values of all conditions, in the order jobs, runs, events
 */
export async function keepCounted(db: Statements, counted: Counted, values: readonly unknown[]): Promise<void> {
  const { addCounts, keepUncounted } = countingOf(db.dialect);
  const keepCounts = db.dialect.upsert(addCounts(counted), ['handler', 'what'], [['times', 'gone.times + new.times']]);
  await db.run(keepCounts, values);
  await keepFromClosing(db);
  await db.run(keepUncounted(counted), values);
}

/** No transaction lasts longer. */
const LONGEST_TRANSACTION_MS = 60_000;

/** How long the reading of the server's clock is valid, in milliseconds. */
const KNOWN_FOR_MS = 60_000;

/** How far hours are closed, and how far they may be before a transaction ends that begins soon. */
interface Hours {
  readonly turn: number;
  readonly closedUntil: number;
  readonly closableUntil: number;
  readonly readAt: number;
}

const known = new WeakMap<Statements, Hours>();

/** Once for each transaction. */
async function readHours(db: Statements): Promise<Hours> {
  const last = known.get(db);
  if (last?.turn === db.turn) return last;
  const hours = { turn: db.turn, ...(db.dialect.name === 'sqlite' ? await readAlone(db) : await readAmongOthers(db)) };
  known.set(db, hours);
  return hours;
}

/** One transaction writes at a time: no hour is closed before its end, and any may be closed behind it. */
async function readAlone(db: Statements): Promise<Omit<Hours, 'turn'>> {
  const found = await db.first<{ until: number }>(`select ${countedUntil} as until`);
  return {
    closedUntil: found?.until ?? 0,
    closableUntil: Number.NEGATIVE_INFINITY,
    readAt: Number.NEGATIVE_INFINITY,
  };
}

async function readAmongOthers(db: Statements): Promise<Omit<Hours, 'turn'>> {
  const found = await db.first<{ until: number; now: number }>(
    `select ${countedUntil} as until, ${db.dialect.nowMs} as now`,
  );
  const { until = 0, now = 0 } = found ?? {};
  const closable = now + KNOWN_FOR_MS + LONGEST_TRANSACTION_MS;
  return { closedUntil: until, closableUntil: closable - (closable % HOUR_MS), readAt: Date.now() };
}

/** Without a look at the log, which most transactions of an hour do without. */
export function isSurelyOpen(db: Statements, at: number): boolean {
  const last = known.get(db);
  return last !== undefined && Math.abs(Date.now() - last.readAt) < KNOWN_FOR_MS && at >= last.closableUntil;
}

/** In which transaction each session has the lock of hours, which a session that closes hours has alone. */
const held = new WeakMap<Statements, number>();

/** Keeps an hour that is over from being closed before the transaction ends. */
async function keepFromClosing(db: Statements): Promise<Hours> {
  const hours = await readHours(db);
  if (hours.closedUntil >= hours.closableUntil || held.get(db) === db.turn) return hours;
  await lock(db, 'hours', 'shared');
  held.set(db, db.turn);
  known.delete(db);
  return await readHours(db);
}

/**
 * Rows of an hour that is closed already: from a replayed spool, a late rescue, or after a clock was set back. The next
 * closing adds their figures to that hour.
 */
export class LateRows {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  /** Runs that were written; with their beginning, if only now that is known. */
  async runs(runs: readonly { id: number; started: number | null; finished: number | null }[]): Promise<void> {
    const until = await this.#closedUntil(runs.flatMap(({ started, finished }) => [started, finished]));
    const isLate = (at: number | null): boolean => at !== null && at < until;
    for (const [start, end] of [
      [true, false],
      [false, true],
      [true, true],
    ] as const) {
      const late = runs.filter(({ started, finished }) => isLate(started) === start && isLate(finished) === end);
      if (late.length === 0) continue;
      const { measuredRuns, runsWithJobs } = countingOf(this.#db.dialect);
      const from = `${runsWithJobs} where ${this.#db.dialect.isIn('runs.id')}`;
      await this.#db.run(keepMeasured(measuredRuns(from, [String(start), String(end)])), [late.map(({ id }) => id)]);
    }
  }

  async jobs(ids: readonly number[], created: readonly number[]): Promise<void> {
    const until = await this.#closedUntil(created);
    await keepLateJobs(
      this.#db,
      ids.filter((_, index) => (created[index] ?? until) < until),
    );
  }

  /** Events of jobs that have failed without a run. */
  async events(events: readonly { id: number; at: number }[]): Promise<void> {
    const until = await this.#closedUntil(events.map(({ at }) => at));
    const late = events.filter(({ at }) => at < until).map(({ id }) => id);
    if (late.length === 0) return;
    const { dialect } = this.#db;
    await this.#db.run(keepMeasured(countingOf(dialect).measuredEvents(dialect.isIn('events.id'))), [late]);
  }

  async #closedUntil(instants: readonly (number | null)[]): Promise<number> {
    if (instants.every((at) => at === null || isSurelyOpen(this.#db, at))) return Number.NEGATIVE_INFINITY;
    const hours = await readHours(this.#db);
    const isClosable = instants.some((at) => at !== null && at < hours.closableUntil);
    return (isClosable ? await keepFromClosing(this.#db) : hours).closedUntil;
  }
}

/** Keeps jobs that were added in an hour that is closed already. */
export async function keepLateJobs(db: Statements, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return;
  const { dialect } = db;
  await db.run(keepMeasured(countingOf(dialect).measuredJobs(dialect.isIn('id'))), [ids]);
}
