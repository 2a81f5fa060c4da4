import { sql } from 'kysely';
import type { Database } from '../store/open-store.ts';
import type { JobState } from '../store/schema.ts';
import { isWaitingJob } from './job-states.ts';
import { fitsPatterns, type Patterns, readPatterns } from './name-patterns.ts';
import type { JobCount } from './queue.ts';

/** How many jobs of each name are in which state, by name. */
export async function countJobs(db: Database, patterns: Patterns, at: number): Promise<JobCount[]> {
  const rows = await selectCounts(db, readPatterns(patterns), at);
  const names = [...new Set(rows.map(({ name }) => name))];
  return names.map((name) =>
    toCount(
      name,
      rows.filter((row) => row.name === name),
    ),
  );
}

/** Jobs of a name that are alike: `waiting` are queued and retrying ones together. */
interface Row {
  readonly name: string;
  readonly state: JobState | 'waiting';
  readonly jobs: number;
  /** How many of them are not due, of those that wait. */
  readonly delayed: number;
}

/**
 * What waits can be a million, and is counted in an index alone. That knows no states, so queued jobs
 * are what is left of it without the retrying ones.
 */
async function selectCounts(db: Database, patterns: readonly string[], at: number): Promise<Row[]> {
  const fits = fitsPatterns(patterns);
  const { rows } = await sql<Row>`
    select name, 'waiting' as state, count(*) as jobs, sum(run_at > ${at}) as delayed
    from jobs indexed by jobs_waiting_by_name where ${isWaitingJob} and ${fits} group by name
    union all
    select name, state, count(*), case when is_delayed then count(*) else 0 end
    from (select name, state, case when state = 'retrying' then run_at > ${at} end as is_delayed
      from jobs where tier is null and state <> 'queued' and ${fits})
    group by name, state, is_delayed
    order by name`.execute(db);
  return rows;
}

function toCount(name: string, rows: readonly Row[]): JobCount {
  const sum = (state: Row['state'], column: 'jobs' | 'delayed') =>
    rows.filter((row) => row.state === state).reduce((total, row) => total + row[column], 0);
  const countOf = (state: Row['state']) => sum(state, 'jobs');
  const delayed = sum('waiting', 'delayed') - sum('retrying', 'delayed');
  return {
    name,
    ready: countOf('waiting') - countOf('retrying') - delayed,
    delayed,
    running: countOf('running'),
    retrying: countOf('retrying'),
    paused: countOf('paused'),
    failed: countOf('failed'),
    finished: countOf('finished'),
    cancelled: countOf('cancelled'),
  };
}
