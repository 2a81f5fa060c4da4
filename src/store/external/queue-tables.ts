import { quoteIdentifier } from '../sqlite/driver.ts';
import { asText, type ExternalDatabase, type ExternalRow, findColumns } from './external-database.ts';

/** The jobs of a Bedrock::Jobs database, to be read as often as one likes. */
interface BedrockRows {
  /**
   * All of them, parents first, else in the order in which they were added: their columns as text, `data`
   * as bytes without what Bedrock keeps there for itself, which has columns of its own.
   */
  jobs(): Iterable<ExternalRow>;
  /** Parents and children only: `id`, `parent` (null: it is no child), `created`, `state`, `isMocked`. */
  relatives(): Iterable<ExternalRow>;
}

const NEEDED = ['created', 'jobID', 'state', 'name', 'nextRun', 'lastRun', 'repeat', 'data'];
const OPTIONAL = ['priority', 'parentJobID', 'retryAfter'];

/** @throws {UsageError} when the table is none of Bedrock's */
export function openBedrockRows(database: ExternalDatabase, table: string): BedrockRows {
  const known = { system: 'Bedrock', table, needed: NEEDED, optional: OPTIONAL };
  const optional = findColumns(database, known);
  const jobs = selectBedrockJobs(table, optional);
  return {
    jobs: () => database.select(jobs),
    relatives: () => (optional.has('parentJobID') ? database.select(selectRelatives(table)) : []),
  };
}

const IS_CHILD = "coalesce(parentJobID, 0) not in (0, '', '0')";

function selectRelatives(table: string): string {
  const name = quoteIdentifier(table);
  return `select cast(jobID as text) as id,
      case when ${IS_CHILD} then cast(parentJobID as text) end as parent,
      cast(created as text) as created, cast(state as text) as state,
      case when json_valid(cast(data as text))
        then json_extract(cast(data as text), '$.mockRequest') is not null end as isMocked
    from ${name}
    where ${IS_CHILD} or jobID in (select parentJobID from ${name} where ${IS_CHILD})
    order by ${name}.created, jobID`;
}

function selectBedrockJobs(table: string, optional: ReadonlySet<string>): string {
  const columns = [
    ...NEEDED.filter((column) => column !== 'data').map((column) => asText(column)),
    ...OPTIONAL.map((column) => asText(column, optional.has(column))),
    "coalesce(nullif(cast(data as text), ''), '{}') as text",
    'created as createdOrder',
    'jobID as idOrder',
  ];
  const jobs = `select ${columns.join(', ')} from ${quoteIdentifier(table)}`;
  const isObject = "case when json_valid(text) then json_type(text) = 'object' else 0 end";
  return `select *, ${EXTRACTED.join(', ')}, cast(${WITHOUT_OWN_KEYS} as blob) as data
    from (select *, ${isObject} as isObject from (${jobs}))
    order by ${IS_CHILD}, createdOrder, idOrder`;
}

/** Bedrock's own keys within a job's data. */
const OWN_KEYS = ['retryAfterCount', 'originalNextRun'];

const EXTRACTED = [...OWN_KEYS, 'mockRequest'].map(
  (key) => `case when isObject then json_extract(text, '$.${key}') end as ${key}`,
);

const HAS_OWN_KEYS = OWN_KEYS.map((key) => `json_type(text, '$.${key}') is not null`).join(' or ');
const OWN_PATHS = OWN_KEYS.map((key) => `'$.${key}'`).join(', ');

/** Numbers stay as they are written there: JavaScript would round Bedrock's own. */
const WITHOUT_OWN_KEYS = `case when isObject and (${HAS_OWN_KEYS}) then json_remove(text, ${OWN_PATHS}) else text end`;

/** The jobs of one of LaterJob's queues, to be read as often as one likes. */
interface LaterJobRows {
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
  const jobs = selectLaterJobs(table, hasTransitions ? transitions : null);
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

function selectLaterJobs(queue: string, transitions: string | null): string {
  const columns = [...COLUMNS, ...LOCK].map((column) => asText(column)).join(', ');
  const data = `cast(${DATA} as blob) as data, json_valid(cast(${DATA} as text)) as isJson`;
  const jobs = `select ${columns}, ${data}, dte_add as addedOrder from ${quoteIdentifier(queue)}`;
  const order = 'order by addedOrder, job_id';
  if (transitions === null) {
    return `select *, 0 as starts, null as started, null as ended, null as reason from (${jobs}) ${order}`;
  }
  return `select jobs.*, coalesce(starts, 0) as starts, started, ended, reason from (${jobs}) as jobs
    left join (${selectTimes(transitions)}) as times on times.job = jobs.job_id
    left join (${selectReasons(transitions)}) as reasons on reasons.job = jobs.job_id ${order}`;
}

function selectTimes(transitions: string): string {
  const when = (states: readonly number[]) => `max(case when state_id in (${states}) then dte_occured end)`;
  return `select cast(job_id as text) as job, sum(state_id = ${START}) as starts,
    ${when([START])} as started, ${when(ENDS)} as ended
    from ${quoteIdentifier(transitions)} where job_id is not null group by 1`;
}

/** SQLite takes the other columns of the row with the maximum. */
function selectReasons(transitions: string): string {
  return `select cast(job_id as text) as job, cast(transition_msg as text) as reason, max(transition_id)
    from ${quoteIdentifier(transitions)} where job_id is not null and state_id in (${EXPLAINED}) group by 1`;
}
