import { type ForeignDatabase, quoteName } from '../../store/foreign-database.ts';
import { noFamilies, readFamilies } from './bedrock-families.ts';
import { convertBedrockJob } from './convert-bedrock-job.ts';
import { asText, findColumns } from './find-columns.ts';
import type { ForeignQueue, ImportOptions } from './imported-job.ts';
import { orBad } from './read-values.ts';

const NEEDED = ['created', 'jobID', 'state', 'name', 'nextRun', 'lastRun', 'repeat', 'data'];
const OPTIONAL = ['priority', 'parentJobID', 'retryAfter'];

/** The jobs of a Bedrock::Jobs database. @throws {UsageError} when it is none */
export function readBedrock(database: ForeignDatabase, options: ImportOptions): ForeignQueue {
  const { table = 'jobs' } = options;
  const known = { system: 'Bedrock', table, needed: NEEDED, optional: OPTIONAL };
  const optional = findColumns(database, known);
  const families = optional.has('parentJobID') ? readFamilies(database, table) : noFamilies;
  const query = selectJobs(table, optional);
  return {
    system: 'Bedrock',
    table,
    notes: [],
    isParent: (id) => families.childrenOf(id).length > 0,
    *read(bad) {
      for (const row of database.select(query)) {
        yield orBad(row.jobID, () => convertBedrockJob(row, { families, options, bad }));
      }
    },
  };
}

/** Parents first: a child is added as one of theirs. */
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
  return `select *, ${extracted.join(', ')}, cast(${withoutOwnKeys} as blob) as data
    from (select *, ${isObject} as isObject from (${jobs}))
    order by parentJobID is not null and parentJobID not in ('', '0'), createdOrder, idOrder`;
}

/** What Bedrock keeps among a job's data. */
const OWN_KEYS = ['retryAfterCount', 'originalNextRun'];

const extracted = [...OWN_KEYS, 'mockRequest'].map(
  (key) => `case when isObject then json_extract(text, '$.${key}') end as ${key}`,
);

/** Numbers stay as they are written there: JavaScript would round Bedrock's own. */
const withoutOwnKeys = `case when isObject and (${OWN_KEYS.map((key) => {
  return `json_type(text, '$.${key}') is not null`;
}).join(
  ' or ',
)}) then json_remove(text, ${OWN_KEYS.map((key) => `'$.${key}'`).join(', ')}) else text end`;
