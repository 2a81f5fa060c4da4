import type { FinishedRun } from '../../schema.ts';
import { endColumns } from '../../shared/run-rows.ts';
import { listsOf, quoted, unnest } from '../../shared/sql/rows.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import { isChildless } from '../../statements/job-rows.ts';
import { beginningColumns } from '../../tables.ts';

/** A run that has succeeded, as its row is to be. */
export interface FinishedRow {
  readonly token: string;
  /** JSON; null: it gave none back. */
  readonly result: string | null;
  /** In the order of the columns of beginnings; the job's number is the first. */
  readonly begun: readonly unknown[];
  readonly end: FinishedRun;
}

type EndColumn = (typeof endColumns)[number] | 'pid';

const plainColumns: readonly EndColumn[] = [
  ...(['finished_at', 'duration_us', 'exit_code', 'output_bytes', 'output_dropped_bytes', 'pid', 'suspect'] as const),
];
const measuredColumns: readonly EndColumn[] = [
  ...(['user_cpu_us', 'system_cpu_us', 'max_rss_bytes', 'rss_delta_bytes', 'measured_by'] as const),
];
/** Few runs that have succeeded have any of these. */
const otherColumns = endColumns.filter((each) => ![...plainColumns, ...measuredColumns, 'outcome'].includes(each));

/**
 * Finishes claimed jobs and adds their runs by one statement; numbers of the runs, by job. Left out are jobs that are
 * not as they were claimed, and those with a family or a rule.
 */
export async function finishJobs(db: Statements, rows: readonly FinishedRow[]): Promise<Map<number, number>> {
  const { text, values } = finishing(rows);
  const added = await db.all<{ id: number; job_id: number }>(`with ${text} select id, job_id from added`, values);
  return new Map(added.map(({ id, job_id }) => [job_id, id]));
}

/** The part of a statement that does so: `added` has number and job of each run. */
export function finishing(rows: readonly FinishedRow[]): { readonly text: string; readonly values: unknown[][] } {
  const isKnown = (column: EndColumn): boolean => rows.some(({ end }) => end[column] !== null);
  const groups = [measuredColumns, otherColumns].filter((group) => group.some(isKnown));
  const ends = [...plainColumns, ...groups.flat()];
  const values = listsOf(
    rows.map(({ token, result, begun, end }) => [token, result, ...begun, ...ends.map((column) => end[column])]),
  );
  return { text: finishText([...beginningColumns, ...ends]), values };
}

/**
 * The conditions belong together: with each alone, a planner would go through all claimed jobs for each job. A session
 * that adds a child locks and changes the parent's row: a statement that has waited for it sees this change, though not
 * the child.
 */
function finishText(columns: readonly string[]): string {
  const names = columns.map(quoted);
  return `ended as (
      update jobs set state = 'finished', ready = null, result = told.result, finished_at = told.finished_at,
        reason = ${columns.includes('reason') ? 'told.reason' : 'null'}, attempts = told.attempt,
        started_at = told.started_at, claim_token = null, lease_expires_at = null, lease_extended = 0
      from ${unnest(['claim_token', 'result', ...columns])} as told (claim_token, result, ${names.join(', ')})
      where jobs.id = told.job_id
        and case when jobs.claim_token = told.claim_token and jobs.attempts = told.attempt - 1
          then jobs.state = 'claimed' and jobs.parent_id is null and jobs."repeat" is null and jobs.tier is null
            and jobs.on_child_failure is null and ${isChildless} end
      returning ${names.map((name) => `told.${name}`).join(', ')}),
    added as (insert into runs (outcome, ${names.join(', ')}) select 'succeeded', ended.* from ended
      returning id, job_id)`;
}
