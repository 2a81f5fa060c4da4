import type { Statements } from '../session.ts';

/** Which rows are counted, each as a condition; those of a table that is left out are not. */
interface Counted {
  readonly jobs?: string;
  readonly runs?: string;
  readonly events?: string;
}

/** A job's name without parameters. */
export const handlerOf = (name: string): string => `substr(${name}, 1, instr(${name} || '?', '?') - 1)`;

/** What these rows tell of the jobs of each handler: what happened, and how often. */
export function countsOf({ jobs, runs, events }: Counted): string {
  const ofJobs = `select ${handlerOf('name')} as handler, 'added' as what, count(*) as times
    from jobs where tier is null and ${jobs} group by 1`;
  const ofRuns = `select substr(name, 7) as handler, outcome as what, times
    from (select script_id, outcome, count(*) as times from runs where ${runs} group by 1, 2)
    cross join scripts on scripts.id = script_id where name >= 'queue/' and name < 'queue0'`;
  const ofEvents = `select ${handlerOf('jobs.name')} as handler, event as what, count(*) as times
    from events cross join jobs on jobs.id = events.job_id
    where jobs.tier is null and event in ('job-lease-expired', 'job-buried', 'job-kicked') and ${events}
    group by 1, 2`;
  return [jobs && ofJobs, runs && ofRuns, events && ofEvents].filter(Boolean).join(' union all ');
}

/** Adds what rows tell to what is known of those that are gone; to be run before they go. */
export function keepCounts(counted: Counted): string {
  return `insert into gone (handler, what, times)
    select handler, case what when 'running' then 'lost' else what end as what, sum(times)
    from (${countsOf(counted)}) where true group by 1, 2
    on conflict (handler, what) do update set times = times + excluded.times`;
}

/** How long after its time a first try began. When a job of the queue was due is known until it is tried again. */
const lateMs = `case when runs.attempt = 1 then max(0, runs.started_at - coalesce(runs.scheduled_for,
  case when jobs.tier is null and jobs.repeat is null and jobs.attempts <= 1 then jobs.run_at end)) end`;

/** Since a job was added until it finished or failed; of one that repeats, since the time that it was for. */
const serviceMs = `case when jobs.tier is null
    and (runs.left_job = 'failed' or (runs.outcome = 'succeeded' and runs.left_job is null))
  then max(0, runs.finished_at - case when jobs.repeat is null then jobs.created_at
    else coalesce(runs.scheduled_for, jobs.created_at) end) end`;

/** Columns of rows from which metrics are made, in the order of the three below; what follows is up to who asks. */
const measuredColumns = `what, name, worker_id, outcome, left_job, started_at, finished_at, late_ms, service_ms,
  duration_ms, cpu_ms, max_rss_bytes, counts_start, counts_end`;

/** Whether the beginning and the end are to be counted, each as an expression. */
type Counts = readonly [start: string, end: string];

/** @param jobs a condition */
export const measuredJobs = (jobs: string): string =>
  `select 'added' as what, 'queue/' || ${handlerOf('name')} as name, null as worker_id, null as outcome,
     null as left_job, created_at as started_at, null as finished_at, null as late_ms, null as service_ms,
     null as duration_ms, null as cpu_ms, null as max_rss_bytes, 1 as counts_start, 0 as counts_end
   from jobs where tier is null and ${jobs}`;

/** @param from `runs`, `scripts` and `jobs`, joined, with a condition */
export const measuredRuns = (from: string, [start, end]: Counts): string =>
  `select 'run' as what, scripts.name as name, runs.worker_id as worker_id, runs.outcome as outcome,
     runs.left_job as left_job, runs.started_at as started_at, runs.finished_at as finished_at,
     ${lateMs} as late_ms, ${serviceMs} as service_ms, runs.duration_ms as duration_ms,
     runs.user_cpu_ms + runs.system_cpu_ms as cpu_ms, runs.max_rss_bytes as max_rss_bytes,
     ${start} as counts_start, ${end} as counts_end
   from ${from}`;

/** What failed without a run. A job that was buried as it ran has failed with it. */
export const measuredEvents = (events: string): string =>
  `select 'failed' as what,
     case when jobs.tier is null then 'queue/' || ${handlerOf('jobs.name')} else jobs.name end as name,
     null as worker_id, null as outcome, 'failed' as left_job, null as started_at, events.at as finished_at,
     null as late_ms, case when jobs.tier is null then max(0, events.at - jobs.created_at) end as service_ms,
     null as duration_ms, null as cpu_ms, null as max_rss_bytes, 0 as counts_start, 1 as counts_end
   from events cross join jobs on jobs.id = events.job_id
   where event in ('job-failed', 'job-buried') and ${events} and not exists (select 1 from runs
     where runs.job_id = events.job_id and runs.finished_at = events.at)`;

const runsWithJobs = 'runs cross join jobs on jobs.id = runs.job_id cross join scripts on scripts.id = runs.script_id';

/** Until when all is counted; before anything is, nothing has been. */
const countedUntil = `coalesce((select done_at from chores where name = 'hours'), -8640000000000000)`;

const keep = (rows: string): string => `insert into uncounted (${measuredColumns}) ${rows}`;

/** Keeps of rows what no hour has counted yet; to be run before they go. */
export function keepUncounted({ jobs, runs, events }: Counted): string {
  const isOpen = (instant: string): string => `${instant} >= ${countedUntil}`;
  const parts = [
    jobs && measuredJobs(`${jobs} and ${isOpen('created_at')}`),
    runs &&
      measuredRuns(
        `${runsWithJobs} where ${runs} and (${isOpen('runs.started_at')} or ${isOpen('coalesce(runs.finished_at, -9e15)')})`,
        [isOpen('runs.started_at'), isOpen('coalesce(runs.finished_at, -9e15)')],
      ),
    events && measuredEvents(`${events} and ${isOpen('events.at')}`),
  ];
  return keep(parts.filter(Boolean).join(' union all '));
}

const noteLateRun = keep(measuredRuns(`${runsWithJobs} where runs.id = ?`, ['?', '?']));
const noteLateJobs = keep(measuredJobs('id in (select value from json_each(?)) and created_at < ?'));
const noteLateEvent = keep(measuredEvents('events.id = ?'));

/**
 * What is written of an hour that is closed already: a spool was replayed, a late rescue, a clock that was set back. Its
 * figures are added to that hour's by whoever closes the next one.
 */
export class LateRows {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  /** @param started if its beginning is only known now */
  run(id: number, started: number | null, finished: number | null): void {
    const until = this.#countedUntil();
    const isLate = (at: number | null) => at !== null && at < until;
    if (isLate(started) || isLate(finished)) {
      this.#db.run(noteLateRun, [Number(isLate(started)), Number(isLate(finished)), id]);
    }
  }

  jobs(ids: readonly number[], created: readonly number[]): void {
    const until = this.#countedUntil();
    if (created.some((at) => at < until)) this.#db.run(noteLateJobs, [JSON.stringify(ids), until]);
  }

  event(id: number, at: number): void {
    if (at < this.#countedUntil()) this.#db.run(noteLateEvent, [id]);
  }

  #countedUntil(): number {
    return this.#db.first<{ until: number }>(`select ${countedUntil} as until`)?.until ?? 0;
  }
}
