import {
  addedBy,
  type ColumnDefinition,
  hasValue,
  indexesOn,
  literal,
  now,
  storageOf,
  type TableDefinition,
} from '../columns.ts';
import { laterVersions, SCHEMA_VERSION, stepsTo } from '../schema.ts';
import { sqliteDialect } from '../shared/sql/dialect.ts';
import { viewsOf } from '../shared/views.ts';
import { tables } from '../tables.ts';
import type { Connection, Driver } from './driver.ts';

/** Makes and mends the tables of a log's file, which hardly any invocation does. */

/** Statements that make a table and its indexes. */
function createTable(name: string, table: TableDefinition): string[] {
  if (table.isOnServersAlone) return [];
  const { key, unique = [], sqliteChecks = {} } = table;
  const parts = [
    ...addedBy(undefined, table).map(([column, each]) => describeColumn(column, each, key)),
    ...(key.length > 1 ? [`primary key (${key.join(', ')})`] : []),
    ...(unique.length > 0 ? [`unique (${unique.join(', ')})`] : []),
    ...Object.entries(sqliteChecks).map(([sentence, condition]) => checkText(sentence, condition)),
  ];
  const indexes = indexesOn('sqlite', table).map(
    (index) => `create ${index.isUnique ? 'unique ' : ''}index ${index.name} on ${name} ${index.on}`,
  );
  return [`create table ${name} (${parts.join(', ')})${isByKey(table) ? ' without rowid' : ''}`, ...indexes];
}

/** Statements that add the columns of a later version. */
const addColumns = (version: number): string[] =>
  Object.entries<TableDefinition>(tables).flatMap(([name, table]) =>
    addedBy(version, table).map(
      ([column, each]) => `alter table ${name} add column ${describeColumn(column, each, table.key)}`,
    ),
  );

/** Rows without a number of their own. */
function isByKey({ columns, key }: TableDefinition): boolean {
  const [first] = key;
  if (first === undefined) return false;
  return key.length > 1 || storageOf(columns[first] as ColumnDefinition) !== 'integer';
}

function describeColumn(name: string, column: ColumnDefinition, key: readonly string[]): string {
  const { facts } = column;
  const { check, default: otherwise, partOf, values } = facts;
  const isKey = key.length === 1 && key[0] === name;
  return [
    `${name} ${storageOf(column)}`,
    isKey ? 'primary key' : '',
    facts.isNeverReused ? 'autoincrement' : '',
    facts.isNullable || isKey ? '' : 'not null',
    otherwise === undefined ? '' : `default ${otherwise === now ? `(${sqliteDialect.nowMs})` : literal(otherwise)}`,
    facts.isUnique ? 'unique' : '',
    check?.sqlite === undefined ? '' : checkText(...check.sqlite),
    values === undefined ? '' : `check (${hasValue(name, values)})`,
    partOf === undefined ? '' : `references ${partOf.table} (id) on delete cascade`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

const checkText = (sentence: string, condition: string): string => `constraint "${sentence}" check (${condition})`;

const views = [
  ...Object.entries(viewsOf(sqliteDialect)).map(([name, select]) => `create view ${name} as ${select}`),
  `create view runs_readable as select
    runs.id, scripts.name as script, attempt, outcome,
    strftime('%Y-%m-%d %H:%M:%S', started_at / 1000.0, 'unixepoch', 'localtime') as started,
    strftime('%Y-%m-%d %H:%M:%S', finished_at / 1000.0, 'unixepoch', 'localtime') as finished,
    round(duration_us / 1000000.0, 3) as seconds,
    round((user_cpu_us + system_cpu_us) / 1000.0) as cpu_ms,
    round(max_rss_bytes / 1048576.0, 1) as max_rss_mib,
    measured_by, exit_code, signal, reason, warning, output
  from runs join scripts on scripts.id = script_id left join outputs on run_id = runs.id
  order by started_at desc, runs.id desc`,
];

/** Statements that lead to a version of the schema: from no tables to the first one, and from each to the next. */
const migrations: readonly (readonly string[])[] = [
  [...Object.entries<TableDefinition>(tables).flatMap(([name, table]) => createTable(name, table)), ...views],
  ...laterVersions.map(addColumns),
];

const upTo = (version: number): readonly string[] => migrations.slice(0, stepsTo(version)).flat();
const after = (version: number): readonly string[] => migrations.slice(stepsTo(version)).flat();

/** Brings the tables to the newest schema, all or nothing, once however many processes try. */
export function migrateFile(connection: Connection): void {
  connection.exec('begin immediate');
  try {
    const version = Number(connection.pragma('user_version'));
    for (const statement of after(version)) connection.exec(statement);
    connection.exec(`pragma user_version = ${Math.max(version, SCHEMA_VERSION)}`);
    connection.exec('commit');
  } catch (error) {
    if (connection.inTransaction) connection.exec('rollback');
    throw error;
  }
}

/** Makes the tables of a version of the schema, in a file that has none; `migrateFile` brings them to the newest. */
export function makeTables(connection: Connection, version: number): void {
  for (const statement of upTo(version)) connection.exec(statement);
  connection.pragma(`user_version = ${version}`);
}

/** Whether each object of the file is one that the runner has made at this version, word for word, and none is more. */
export function isOwnSchema(connection: Connection, driver: Driver): boolean {
  const pristine = driver.open(':memory:', { timeoutMs: 0 });
  try {
    makeTables(pristine, Math.max(0, Number(connection.pragma('user_version'))));
    const own = readObjects(pristine);
    const found = [...readObjects(connection).values()];
    return found.every(({ type, name, sql }) => {
      const mine = own.get(name);
      return mine?.type === type && withoutSpace(mine.sql ?? '') === withoutSpace(sql ?? '');
    });
  } finally {
    pristine.close();
  }
}

/** A change that another program has made to the tables. */
export interface SchemaFlaw {
  /** "the table runs is missing" */
  readonly what: string;
  /** An object that holds no rows is made again; an object that is not the runner's own is left to its maker. */
  readonly cure: 'new-log' | 'make-again' | 'drop';
  /** The statement that cures it; '' if only a new log does. */
  readonly sql: string;
}

interface SchemaObject {
  readonly type: 'table' | 'index' | 'view' | 'trigger';
  readonly name: string;
  readonly sql: string;
}

/** How the tables differ from those that the runner has made at this version, or is about to make. */
export function findSchemaFlaws(connection: Connection, driver: Driver): readonly SchemaFlaw[] {
  const version = Math.max(0, Number(connection.pragma('user_version')));
  const found = readObjects(connection);
  const pristine = driver.open(':memory:', { timeoutMs: 0 });
  try {
    for (const statement of upTo(version)) pristine.exec(statement);
    const own = readObjects(pristine);
    for (const statement of after(version)) pristine.exec(statement);
    const later = [...readObjects(pristine).values()].filter(({ name }) => !own.has(name));
    return [
      ...[...own.values()].flatMap((each) => compareObject(each, found.get(each.name), connection, pristine)),
      ...later.filter(({ name }) => found.has(name)).map(({ type, name }) => lost(`the ${type} ${name} is too early`)),
      ...[...found.values()].filter(({ name }) => !own.has(name)).flatMap(judgeStranger),
    ];
  } finally {
    pristine.close();
  }
}

function readObjects(connection: Connection): ReadonlyMap<string, SchemaObject> {
  const text = `select type, lower(name) as name, sql from sqlite_master where name not like 'sqlite~_%' escape '~'`;
  const objects = connection.prepare(text).all([]) as SchemaObject[];
  return new Map(objects.map((each) => [each.name, each]));
}

function compareObject(
  own: SchemaObject,
  found: SchemaObject | undefined,
  connection: Connection,
  pristine: Connection,
): SchemaFlaw[] {
  const { type, name, sql } = own;
  if (found !== undefined && found.type !== type) return [lost(`${name} is a ${found.type}, not the ${type} it was`)];
  if (type === 'table') {
    return found === undefined ? [lost(`the table ${name} is missing`)] : compareColumns(name, connection, pristine);
  }
  if (found === undefined) return [{ what: `the ${type} ${name} is missing`, cure: 'make-again', sql }];
  if (withoutSpace(found.sql) === withoutSpace(sql)) return [];
  return [{ what: `the ${type} ${name} was changed`, cure: 'make-again', sql: `drop ${type} ${name}; ${sql}` }];
}

function compareColumns(table: string, connection: Connection, pristine: Connection): SchemaFlaw[] {
  const found = readColumns(connection, table);
  const own = readColumns(pristine, table);
  const changed = [...own].filter(([name, column]) => found.get(name) !== column);
  const strange = [...found.keys()].filter((name) => !own.has(name));
  return [
    ...changed.map(([name]) => lost(`the column ${table}.${name} ${found.has(name) ? 'was changed' : 'is missing'}`)),
    // One that may be left out is in nobody's way.
    ...strange
      .filter((name) => /"notnull":1,"dflt_value":null/.test(found.get(name) ?? ''))
      .map((name) => lost(`the column ${table}.${name} is not the log's own`)),
  ];
}

function readColumns(connection: Connection, table: string): ReadonlyMap<string, string> {
  const text = 'select lower(name) as name, lower(type) as type, "notnull", dflt_value, pk from pragma_table_info(?)';
  const columns = connection.prepare(text).all([table]) as { readonly name: string }[];
  return new Map(columns.map((column) => [column.name, JSON.stringify(column)]));
}

/** Triggers and unique indexes can refuse what the runner records. */
function judgeStranger({ type, name, sql }: SchemaObject): SchemaFlaw[] {
  if (type !== 'trigger' && !(type === 'index' && /^create\s+unique/i.test(sql))) return [];
  const what = `the ${type} ${name} is not the log's own, and may keep it from being written`;
  return [{ what, cure: 'drop', sql: `drop ${type} "${name.replaceAll('"', '""')}"` }];
}

function lost(what: string): SchemaFlaw {
  return { what, cure: 'new-log', sql: '' };
}

function withoutSpace(sql: string): string {
  return sql.replace(/\s+/g, '').toLowerCase();
}
