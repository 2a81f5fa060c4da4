import { type ForeignDatabase, quoteName } from '../../store/foreign-database.ts';
import { readJobName } from '../job-values.ts';
import { clockOfZone } from './clock-of-zone.ts';
import { convertLaterJob } from './convert-later-job.ts';
import { asText, findColumns } from './find-columns.ts';
import type { ForeignQueue, ImportOptions } from './imported-job.ts';
import { orBad } from './read-values.ts';

const COLUMNS = ['job_id', 'state_id', 'dte_add', 'retry_count', 'retry_last'];
const DATA = 'job_data';
const LOCK = ['handle', 'lock_timeout'];

/** The jobs of one of LaterJob's queues. @throws {UsageError} when it is none */
export async function readLaterJob(
  database: ForeignDatabase,
  options: ImportOptions,
): Promise<ForeignQueue> {
  const { table = 'later_job_queue' } = options;
  const needed = [...COLUMNS, DATA, ...LOCK];
  findColumns(database, { system: 'LaterJob', table, needed, optional: [] });
  const name = readJobName(options.name ?? table);
  const clock = await clockOfZone(options.timeZone);
  const history = findHistory(database, table);
  const query = selectJobs(table, history.table);
  return {
    system: 'LaterJob',
    table,
    notes: history.notes,
    isParent: () => false,
    *read() {
      for (const row of database.select(query)) {
        yield orBad(row.job_id, () => convertLaterJob(row, { name, clock, options }));
      }
    },
  };
}

interface History {
  /** Null: there is none. */
  readonly table: string | null;
  readonly notes: readonly string[];
}

/** `later_job_queue` has its transitions in `later_job_transition`. */
function findHistory(database: ForeignDatabase, queue: string): History {
  const table = queue.replace(/(_queue)?$/, '_transition');
  if (database.columnsOf(table).length > 0) return { table, notes: [] };
  const note = `there is no table ${table}: when jobs ran, and why they failed, is not known`;
  return { table: null, notes: [note] };
}

const START = 2;
const ENDS = [3, 5];
const TOLD = [3, 4, 5];

function selectJobs(queue: string, transitions: string | null): string {
  const columns = [...COLUMNS, ...LOCK].map((column) => asText(column)).join(', ');
  const data = `cast(${DATA} as blob) as data, json_valid(cast(${DATA} as text)) as isJson`;
  const jobs = `select ${columns}, ${data}, dte_add as addedOrder from ${quoteName(queue)}`;
  const order = 'order by addedOrder, job_id';
  if (transitions === null) {
    return `select *, 0 as starts, null as started, null as ended, null as reason from (${jobs}) ${order}`;
  }
  return `select jobs.*, coalesce(starts, 0) as starts, started, ended, reason from (${jobs}) as jobs
    left join (${lives(transitions)}) as lives on lives.job = jobs.job_id
    left join (${reasons(transitions)}) as reasons on reasons.job = jobs.job_id ${order}`;
}

function lives(transitions: string): string {
  const when = (states: readonly number[]) =>
    `max(case when state_id in (${states}) then dte_occured end)`;
  return `select cast(job_id as text) as job, sum(state_id = ${START}) as starts,
    ${when([START])} as started, ${when(ENDS)} as ended
    from ${quoteName(transitions)} where job_id is not null group by 1`;
}

/** SQLite takes the other columns of the row with the maximum. */
function reasons(transitions: string): string {
  return `select cast(job_id as text) as job, cast(transition_msg as text) as reason, max(transition_id)
    from ${quoteName(transitions)} where job_id is not null and state_id in (${TOLD}) group by 1`;
}
