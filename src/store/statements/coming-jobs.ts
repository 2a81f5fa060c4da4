import type { JobRow } from '../schema.ts';
import type { Statements } from '../shared/sql/statements.ts';
import type { JobState } from '../words.ts';
import { hasClaim } from './job-rows.ts';

/** Jobs of one name and state that are due within the same step of time. */
export interface ComingJobRow {
  /** The jobs' name without parameters. */
  readonly handler: string;
  readonly state: JobState;
  readonly jobs: number;
  readonly first: number;
  readonly last: number;
  /** The lowest number of them. */
  readonly id: number;
  readonly repeats: 0 | 1;
}

/** A job that repeats, and that waits or runs. */
export interface RepeatingJobRow
  extends Pick<JobRow, 'id' | 'state' | 'run_at' | 'scheduled_for' | 'started_at' | 'missed_policy'> {
  /** The job's name without parameters. */
  readonly handler: string;
  readonly repeat: string;
}

/** Jobs of the queue by their time. */
export function comingJobsOf(db: Statements) {
  return {
    /** Jobs that wait: those that are due, and the first ones up to a time. Each that repeats is a row of its own. */
    coming: (upTo: ComingUpTo) => coming(db, upTo),
    /** The soonest of these jobs, which repeat, and of those that run until a time. */
    repeating: (ids: readonly number[], until: number, limit: number) => repeating(db, ids, { until, limit }),
  };
}

/** One after the other: each has an index of its own, which has jobs of the queue alone. */
const waiting = ['ready = 1', 'ready = 2', 'ready = 0'];

interface ComingUpTo {
  /** Jobs that are due then are one entry of their name and state. */
  readonly at: number;
  readonly until: number;
  /** In milliseconds. */
  readonly step: number;
  readonly limit: number;
}

async function coming(db: Statements, { at, until, step, limit }: ComingUpTo): Promise<ComingJobRow[]> {
  const rows: ComingJobRow[] = [];
  for (const condition of waiting) {
    const found = await db.all<ComingJobRow & { readonly step: number }>(
      `select ${db.dialect.handlerOf('name')} as handler, state, case when run_at > ? then run_at - run_at % ? end as step,
         case when "repeat" is null then 0 else id end as repeating, count(*) as jobs, min(run_at) as first,
         max(run_at) as last, min(id) as id, max(case when "repeat" is null then 0 else 1 end) as repeats
       from jobs where ${condition} and run_at <= ?
       group by 1, 2, 3, 4 order by first, handler limit ?`,
      [at, step, until, limit],
    );
    rows.push(...found);
  }
  return rows.toSorted((one, other) => one.first - other.first).slice(0, limit);
}

async function repeating(
  db: Statements,
  ids: readonly number[],
  { until, limit }: Pick<ComingUpTo, 'until' | 'limit'>,
): Promise<RepeatingJobRow[]> {
  const { handlerOf, byIndex, isIn } = db.dialect;
  const select = (from: string, values: readonly unknown[]) =>
    db.all<RepeatingJobRow>(
      `select id, ${handlerOf('name')} as handler, state, run_at, scheduled_for, started_at, missed_policy, "repeat"
       from ${from} and "repeat" is not null order by run_at, id limit ?`,
      [...values, limit],
    );
  // By itself SQLite reads the claims by an index that has all jobs of the queue.
  const claims = `${byIndex('jobs', { sqlite: 'jobs_claimed' })} where ${hasClaim} and tier is null`;
  const running = await select(`${claims} and run_at <= ?`, [until]);
  const waiting = ids.length === 0 ? [] : await select(`jobs where ready is not null and ${isIn('id')}`, [ids]);
  return [...running, ...waiting].toSorted((one, other) => one.run_at - other.run_at).slice(0, limit);
}
