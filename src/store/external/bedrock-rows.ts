import {
  asText,
  type ExternalDatabase,
  type ExternalRow,
  findColumns,
  quoteName,
} from './external-database.ts';

/** The jobs of a Bedrock::Jobs database, to be read as often as one likes. */
export interface BedrockRows {
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
  const jobs = selectJobs(table, optional);
  return {
    jobs: () => database.select(jobs),
    relatives: () => (optional.has('parentJobID') ? database.select(selectRelatives(table)) : []),
  };
}

const IS_CHILD = "coalesce(parentJobID, 0) not in (0, '', '0')";

function selectRelatives(table: string): string {
  const name = quoteName(table);
  return `select cast(jobID as text) as id,
      case when ${IS_CHILD} then cast(parentJobID as text) end as parent,
      cast(created as text) as created, cast(state as text) as state,
      case when json_valid(cast(data as text))
        then json_extract(cast(data as text), '$.mockRequest') is not null end as isMocked
    from ${name}
    where ${IS_CHILD} or jobID in (select parentJobID from ${name} where ${IS_CHILD})
    order by ${name}.created, jobID`;
}

function selectJobs(table: string, optional: ReadonlySet<string>): string {
  const columns = [
    ...NEEDED.filter((column) => column !== 'data').map((column) => asText(column)),
    ...OPTIONAL.map((column) => asText(column, optional.has(column))),
    "coalesce(nullif(cast(data as text), ''), '{}') as text",
    'created as createdOrder',
    'jobID as idOrder',
  ];
  const jobs = `select ${columns.join(', ')} from ${quoteName(table)}`;
  const isObject = "case when json_valid(text) then json_type(text) = 'object' else 0 end";
  return `select *, ${EXTRACTED.join(', ')}, cast(${WITHOUT_OWN_KEYS} as blob) as data
    from (select *, ${isObject} as isObject from (${jobs}))
    order by ${IS_CHILD}, createdOrder, idOrder`;
}

/** What Bedrock keeps among a job's data. */
const OWN_KEYS = ['retryAfterCount', 'originalNextRun'];

const EXTRACTED = [...OWN_KEYS, 'mockRequest'].map(
  (key) => `case when isObject then json_extract(text, '$.${key}') end as ${key}`,
);

const HAS_OWN_KEYS = OWN_KEYS.map((key) => `json_type(text, '$.${key}') is not null`).join(' or ');
const OWN_PATHS = OWN_KEYS.map((key) => `'$.${key}'`).join(', ');

/** Numbers stay as they are written there: JavaScript would round Bedrock's own. */
const WITHOUT_OWN_KEYS = `case when isObject and (${HAS_OWN_KEYS}) then json_remove(text, ${OWN_PATHS}) else text end`;
