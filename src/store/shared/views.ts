import { countingOf } from '../statements/counted.ts';
import type { Dialect } from './sql/dialect.ts';

/** The views that each engine has: their names, and what they select. */
export function viewsOf(dialect: Dialect): Readonly<Record<'activity' | 'totals', string>> {
  const none = dialect.name === 'sqlite' ? 'null' : dialect.integer('null');
  return {
    // Every transition of a job, run or worker. The code that settles a run writes into `left_job` how it left its job.
    activity: `
  select started_at as at, case state when 'skipped' then 'worker-skipped' else 'worker-started' end as event,
    id as worker_id, ${none} as job_id, ${none} as run_id, case state when 'skipped' then reason end as detail,
    actor, null as warning from workers
  union all select finished_at, case state when 'crashed' then 'worker-crashed' else 'worker-finished' end,
    id, ${none}, ${none}, reason, null, null from workers where state in ('finished', 'crashed')
  union all select created_at, 'job-queued', ${none}, id, ${none}, null, null, null from jobs where tier is null
  union all select started_at, 'run-started', worker_id, job_id, id, null, null, null from runs
  union all select finished_at,
    case when outcome = 'released' and (left_job is null or left_job <> 'cancelled') then 'job-released'
      when left_job is null then 'job-finished' else 'job-' || left_job end,
    worker_id, job_id, id, reason, null, warning from runs where finished_at is not null
  union all select at, event, worker_id, job_id, run_id, detail, actor, null from events`,
    totals: countingOf(dialect).totalsOf({ jobs: 'true' }),
  };
}
