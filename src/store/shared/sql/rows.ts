import { storageOf, type TableDefinition } from '../../columns.ts';
import { tables } from '../../tables.ts';
import { type Dialect, rowMarks } from './dialect.ts';
import type { Statements } from './statements.ts';

/** The values of a row, in the order of the columns. */
type Row = readonly unknown[];

/** Adds rows, on a server in as few statements as can be; their numbers, in their order. */
export async function addRows(
  db: Statements,
  table: string,
  columns: readonly string[],
  rows: readonly Row[],
): Promise<number[]> {
  const text = insertText(db.dialect, table, columns);
  const ids: number[] = [];
  for (const { values, amount } of insertsOf(db.dialect, rows)) ids.push(...(await db.insert(text, values, amount)));
  return ids;
}

/** How to change a row that exists already; `new.x` is the value that was to be inserted. */
interface Taken {
  readonly key: readonly string[];
  /** Columns overwritten on conflict. */
  readonly set: readonly string[];
  /** Columns whose new value is added on conflict. */
  readonly add?: readonly string[];
}

/** Puts rows, or changes those that are there. No two of them have the same key. */
export async function putRows(
  db: Statements,
  table: string,
  columns: readonly string[],
  rows: readonly Row[],
  { key, set, add = [] }: Taken,
): Promise<void> {
  const assigned = [
    ...set.map(quoted).map((column) => [column, `new.${column}`] as const),
    ...add.map(quoted).map((column) => [column, `${table}.${column} + new.${column}`] as const),
  ];
  const text = db.dialect.upsert(insertText(db.dialect, table, columns), key, assigned);
  for (const { values } of insertsOf(db.dialect, rows)) await db.run(text, values);
}

function insertText(dialect: Dialect, table: string, columns: readonly string[]): string {
  const into = `insert into ${table} (${columns.map(quoted).join(', ')})`;
  if (dialect.name === 'sqlite') return `${into} values ${rowMarks(columns.length, 1)}`;
  return dialect.name === 'postgres' ? `${into} select * from ${unnest(columns)}` : `${into} values ?`;
}

/** Some are words of SQL. */
export const quoted = (column: string): string => `"${column}"`;

/**
 * The values of each statement that adds some of the rows, and how many these are: in SQLite one row, elsewhere rows as
 * one value, or as one for each column. However many there are, the text is the same.
 */
function* insertsOf({ name }: Dialect, rows: readonly Row[]): Generator<{ values: Row; amount: number }> {
  if (name === 'sqlite') for (const row of rows) yield { values: row, amount: 1 };
  else
    for (const page of pagesOf(rows, ofStatement)) {
      yield { values: name === 'postgres' ? listsOf(page) : [page], amount: page.length };
    }
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

/** Storage of a column by its name, in any table: no name has two types. */
const storages = new Map(
  Object.values<TableDefinition>(tables).flatMap(({ columns }) =>
    Object.entries(columns).map(([name, column]) => [name, storageOf(column)]),
  ),
);
const types = { integer: 'bigint', real: 'double precision', text: 'text', blob: 'bytea' } as const;

const typeOf = (column: string): string => types[storages.get(column) ?? 'integer'];

/** Most rows and characters in one statement: MySQL may refuse more than a megabyte. */
export const ofStatement: PageLimits<Row> = {
  most: 500,
  mostSize: 250_000,
  sizeOf: (row) => row.reduce<number>((size, value) => size + (typeof value === 'string' ? value.length : 8), 0),
};

interface PageLimits<Item> {
  /** How many items. */
  readonly most?: number;
  /** The largest sum of sizes. */
  readonly mostSize: number;
  readonly sizeOf: (item: Item) => number;
}

/** Splits items into parts that one statement can take, in order; at least one item each. */
export function* pagesOf<Item>(
  items: readonly Item[],
  { most = Number.POSITIVE_INFINITY, mostSize, sizeOf }: PageLimits<Item>,
): Generator<readonly Item[]> {
  let page: Item[] = [];
  let size = 0;
  for (const item of items) {
    const more = sizeOf(item);
    if (page.length === most || (page.length > 0 && size + more > mostSize)) {
      yield page;
      page = [];
      size = 0;
    }
    page.push(item);
    size += more;
  }
  if (page.length > 0) yield page;
}
