import { storageOf, type TableDefinition } from '../../columns.ts';
import { tables } from '../../tables.ts';
import type { ServerStatements } from '../session.ts';
import type { Dialect } from './dialect.ts';

/** The values of a row, in the order of the columns. */
type Row = readonly unknown[];

/** Adds rows, in as few statements as can be; their numbers, in their order. */
export async function addRows(
  db: ServerStatements,
  table: string,
  columns: readonly string[],
  rows: readonly Row[],
): Promise<number[]> {
  const ids: number[] = [];
  for (const page of pagesOf(rows)) {
    ids.push(...(await db.insert(insertText(db.dialect, table, columns), listOf(db.dialect, page), page.length)));
  }
  return ids;
}

/** How to change a row that exists already; `new.x` is the value that was to be inserted. */
interface Taken {
  readonly key: readonly string[];
  /** Columns overwritten on conflict. */
  readonly set: readonly string[];
}

/** Puts rows, or changes those that are there. No two of them have the same key. */
export async function putRows(
  db: ServerStatements,
  table: string,
  columns: readonly string[],
  rows: readonly Row[],
  { key, set }: Taken,
): Promise<void> {
  const assigned = set.map((column) => [column, `new.${column}`] as const);
  for (const page of pagesOf(rows)) {
    await db.run(db.dialect.upsert(insertText(db.dialect, table, columns), key, assigned), listOf(db.dialect, page));
  }
}

/** Changes rows by number. */
export async function changeRows(
  db: ServerStatements,
  table: string,
  columns: readonly string[],
  rows: readonly { readonly id: number; readonly values: Row }[],
): Promise<void> {
  const all = ['id', ...columns];
  for (const page of pagesOf(rows.map(({ id, values }) => [id, ...values]))) {
    await db.run(changeText(db.dialect, table, all, page), valuesOf(db.dialect, page));
  }
}

function insertText(dialect: Dialect, table: string, columns: readonly string[]): string {
  const into = `insert into ${table} (${columns.map(quoted).join(', ')})`;
  return dialect.name === 'postgres' ? `${into} select * from ${unnest(columns)}` : `${into} values ?`;
}

function valuesOf({ name }: Dialect, rows: readonly Row[]): unknown[] {
  return name === 'postgres' ? listsOf(rows) : rows.flat();
}

function changeText(dialect: Dialect, table: string, columns: readonly string[], rows: readonly Row[]): string {
  const assigned = columns.slice(1).map((column) => `${quoted(column)} = ${newValue(table, column)}`);
  if (dialect.name === 'postgres') {
    const list = columns.map(quoted).join(', ');
    return `update ${table} set ${assigned.join(', ')} from ${unnest(columns)} as new (${list})
      where ${table}.id = new.id`;
  }
  const named = `select ${columns.map((column) => `? as ${quoted(column)}`).join(', ')}`;
  const others = rows.slice(1).map(() => ` union all select ${columns.map(() => '?').join(', ')}`);
  return `update ${table} join (${named}${others.join('')}) as new on new.id = ${table}.id
    set ${assigned.map((each) => `${table}.${each}`).join(', ')}`;
}

/** A run's process that is not known at its end may have been written down before. */
function newValue(table: string, column: string): string {
  const value = `new.${quoted(column)}`;
  return column === 'pid' ? `coalesce(${value}, ${table}.${quoted(column)})` : value;
}

/** Some are words of SQL. */
export const quoted = (column: string): string => `"${column}"`;

/** Rows as one value, or as one for each column: however many there are, the text is the same. */
function listOf({ name }: Dialect, rows: readonly Row[]): unknown[] {
  return name === 'postgres' ? listsOf(rows) : [rows];
}

/** A list for each column, for {@link unnest}. */
export function listsOf(rows: readonly Row[]): unknown[][] {
  const [first = []] = rows;
  return first.map((_, index) => rows.map((row) => row[index] ?? null));
}

/** Rows out of a list for each column, in PostgreSQL: planned once, however many there are. */
export function unnest(columns: readonly string[]): string {
  return `unnest(${columns.map((column) => `?::${typeOf(column)}[]`).join(', ')})`;
}

/** Of whichever table: no name has two types. */
const storages = new Map(
  Object.values<TableDefinition>(tables).flatMap(({ columns }) =>
    Object.entries(columns).map(([name, column]) => [name, storageOf(column)]),
  ),
);
const types = { integer: 'bigint', real: 'double precision', text: 'text', blob: 'bytea' } as const;

const typeOf = (column: string): string => types[storages.get(column) ?? 'integer'];

/** Most rows and characters in one statement: MySQL may refuse more than a megabyte. */
const MOST_ROWS = 500;
const MOST_CHARACTERS = 250_000;

/** Splits rows into parts that one statement can take, in order; at least one row each. */
function* pagesOf(rows: readonly Row[]): Generator<readonly Row[]> {
  let page: Row[] = [];
  let characters = 0;
  for (const row of rows) {
    const more = charactersOf(row);
    if (page.length === MOST_ROWS || (page.length > 0 && characters + more > MOST_CHARACTERS)) {
      yield page;
      page = [];
      characters = 0;
    }
    page.push(row);
    characters += more;
  }
  if (page.length > 0) yield page;
}

function charactersOf(row: Row): number {
  return row.reduce<number>((size, value) => size + (typeof value === 'string' ? value.length : 8), 0);
}
