import {
  asText,
  type ExternalDatabase,
  type ExternalRow,
  findColumns,
  quoteName,
} from './external-database.ts';

/** The jobs of one of LaterJob's queues, to be read as often as one likes. */
export interface LaterJobRows {
  /** The table of transitions that is missing; null: it is there. */
  readonly missingTransitions: string | null;
  /**
   * All of them in the order in which they were added: their columns as text, `data` as bytes, and from
   * the transitions `starts`, `started`, `ended` and `reason`.
   */
  jobs(): Iterable<ExternalRow>;
}

const COLUMNS = ['job_id', 'state_id', 'dte_add', 'retry_count', 'retry_last'];
const DATA = 'job_data';
const LOCK = ['handle', 'lock_timeout'];

/** @throws {UsageError} when the table is none of LaterJob's */
export function openLaterJobRows(database: ExternalDatabase, table: string): LaterJobRows {
  const needed = [...COLUMNS, DATA, ...LOCK];
  findColumns(database, { system: 'LaterJob', table, needed, optional: [] });
  const transitions = transitionsOf(table);
  const hasTransitions = database.columnsOf(transitions).length > 0;
  const jobs = selectJobs(table, hasTransitions ? transitions : null);
  return {
    missingTransitions: hasTransitions ? null : transitions,
    jobs: () => database.select(jobs),
  };
}

/** `later_job_queue` has its transitions in `later_job_transition`. */
function transitionsOf(queue: string): string {
  return queue.replace(/(_queue)?$/, '_transition');
}

const START = 2;
const ENDS = [3, 5];
/** Those that have a reason. */
const EXPLAINED = [3, 4, 5];

function selectJobs(queue: string, transitions: string | null): string {
  const columns = [...COLUMNS, ...LOCK].map((column) => asText(column)).join(', ');
  const data = `cast(${DATA} as blob) as data, json_valid(cast(${DATA} as text)) as isJson`;
  const jobs = `select ${columns}, ${data}, dte_add as addedOrder from ${quoteName(queue)}`;
  const order = 'order by addedOrder, job_id';
  if (transitions === null) {
    return `select *, 0 as starts, null as started, null as ended, null as reason from (${jobs}) ${order}`;
  }
  return `select jobs.*, coalesce(starts, 0) as starts, started, ended, reason from (${jobs}) as jobs
    left join (${selectTimes(transitions)}) as times on times.job = jobs.job_id
    left join (${selectReasons(transitions)}) as reasons on reasons.job = jobs.job_id ${order}`;
}

function selectTimes(transitions: string): string {
  const when = (states: readonly number[]) =>
    `max(case when state_id in (${states}) then dte_occured end)`;
  return `select cast(job_id as text) as job, sum(state_id = ${START}) as starts,
    ${when([START])} as started, ${when(ENDS)} as ended
    from ${quoteName(transitions)} where job_id is not null group by 1`;
}

/** SQLite takes the other columns of the row with the maximum. */
function selectReasons(transitions: string): string {
  return `select cast(job_id as text) as job, cast(transition_msg as text) as reason, max(transition_id)
    from ${quoteName(transitions)} where job_id is not null and state_id in (${EXPLAINED}) group by 1`;
}
