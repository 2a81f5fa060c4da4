import { createHash } from 'node:crypto';
import { type Storage, storageOf, type TableDefinition } from '../columns.ts';
import { addRows, ofStatement, pagesOf, putRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { tables } from '../tables.ts';
import { type LogPlace, MoveRefused, type SourcePlace, type TargetPlace } from './place.ts';

/** A table of the log, as every engine has it. */
export interface LogTable {
  readonly name: string;
  readonly columns: readonly LogColumn[];
  /** The columns that distinguish its rows; empty: none do. */
  readonly key: readonly string[];
  /**
   * The first column of the key if it is a number: the table is copied in ranges of it. Null: the table is copied as a
   * whole.
   */
  readonly page: string | null;
}

export interface LogColumn {
  readonly name: string;
  readonly kind: Storage;
}

/** All that hold something to be moved; what rows refer to comes before them. */
export const logTables: readonly LogTable[] = Object.entries<TableDefinition>(tables)
  .filter(([, { isOnServersAlone }]) => !isOnServersAlone)
  .map(([name, { columns, key }]) => {
    const kinds = Object.entries(columns).map(([column, each]) => ({ name: column, kind: storageOf(each) }));
    const [first] = kinds.filter((column) => column.name === key[0]);
    return { name, columns: kinds, key, page: first?.kind === 'integer' ? first.name : null };
  });

/** Whole numbers as their digits. */
type Cell = string | number | Uint8Array | null;
export type Row = readonly Cell[];

/** The part of a table whose rows' first key is beyond `after`, up to `to`; null: all before, all behind it. */
export interface Range {
  readonly after: number | null;
  readonly to: number | null;
}

export const everything: Range = { after: null, to: null };

/** How much is read, and held in memory, at a time. */
const PAGE_BYTES = 500_000;
const PAGE_KEYS = 500;

/** Up to where the next page goes; null: no row is left. */
async function findPageEnd(place: LogPlace, table: LogTable, range: Range): Promise<number | null> {
  const { text, values } = conditionOf(table, range);
  const selecting = `select t."${table.page}" as start, sum(${sizeOf(table)}) as bytes from "${table.name}" as t ${text}
    group by t."${table.page}" order by t."${table.page}" limit ${PAGE_KEYS}`;
  const keys = await place.ask((db) => db.all<{ readonly start: number; readonly bytes: number }>(selecting, values));
  let bytes = 0;
  let end: number | null = null;
  for (const key of keys) {
    bytes += Number(key.bytes);
    if (end !== null && bytes > PAGE_BYTES) break;
    end = Number(key.start);
  }
  return end;
}

/** The approximate size of one row. */
function sizeOf({ columns }: LogTable): string {
  const long = columns.filter(({ kind }) => kind === 'text' || kind === 'blob');
  return [8 * columns.length, ...long.map(({ name }) => `coalesce(octet_length(t."${name}"), 0)`)].join(' + ');
}

async function readRows(place: LogPlace, table: LogTable, range: Range): Promise<Row[]> {
  const { text, values } = conditionOf(table, range);
  // JavaScript's numbers do not hold all whole ones, and MySQL's driver reads the last digit of a fraction wrong, now
  // and then.
  const isMysql = place.engine === 'mysql';
  const columns = table.columns.map(({ name, kind }) => {
    const isNumber = kind === 'integer' || (kind === 'real' && isMysql);
    return isNumber ? `cast(t."${name}" as ${isMysql ? 'char' : 'text'}) as "${name}"` : `t."${name}"`;
  });
  const order = table.page === null ? '' : `order by ${table.key.map((name) => `t."${name}"`).join(', ')}`;
  const selecting = `select ${columns.join(', ')} from "${table.name}" as t ${text} ${order}`;
  const rows = await place.ask((db) => db.all<Record<string, Cell>>(selecting, values));
  return rows.map((row) => table.columns.map(({ name, kind }) => toCell(row[name] ?? null, kind)));
}

function toCell(cell: Cell, kind: LogColumn['kind']): Cell {
  return kind === 'real' && typeof cell === 'string' ? Number(cell) : cell;
}

function conditionOf({ page }: LogTable, { after, to }: Range): { readonly text: string; readonly values: number[] } {
  const conditions = [
    ...(after === null ? [] : [{ text: `t."${page}" > ?`, value: after }]),
    ...(to === null ? [] : [{ text: `t."${page}" <= ?`, value: to }]),
  ];
  const text = conditions.length === 0 ? '' : `where ${conditions.map((each) => each.text).join(' and ')}`;
  return { text, values: conditions.map(({ value }) => value) };
}

/** How often a value could not be kept as it was. */
export interface Altered {
  /** PostgreSQL's text holds no NUL. */
  nul: number;
  /** SQLite keeps a fraction in a column of whole numbers, and bytes in one of texts. */
  fraction: number;
  bytes: number;
}

/** The row as the target can hold it. */
function fitRow(row: Row, columns: readonly LogColumn[], target: LogPlace, altered: Altered): Row {
  return row.map((cell, index) => {
    const { kind } = columns[index] as LogColumn;
    if (kind === 'integer' && cell !== null && !/^-?\d+$/.test(String(cell))) {
      altered.fraction += 1;
      return String(Math.round(Number(cell)));
    }
    return kind === 'text' && cell !== null ? fitText(cell, target, altered) : cell;
  });
}

function fitText(cell: NonNullable<Cell>, { engine }: LogPlace, altered: Altered): string {
  if (typeof cell === 'object') altered.bytes += 1;
  const text = typeof cell === 'object' ? Buffer.from(cell).toString() : String(cell);
  if (engine !== 'postgres' || !text.includes('\0')) return text;
  altered.nul += 1;
  return text.replaceAll('\0', '\uFFFD');
}

/** A checksum that does not depend on the order of rows: equal values give the same one, from any engine. */
export class Checksum {
  rows = 0;
  #sum = 0n;

  static of(rows: readonly Row[]): Checksum {
    const checksum = new Checksum();
    checksum.rows = rows.length;
    for (const row of rows) checksum.#sum += digestRow(row);
    checksum.#sum = BigInt.asUintN(64, checksum.#sum);
    return checksum;
  }

  add(other: Checksum): void {
    this.rows += other.rows;
    this.#sum = BigInt.asUintN(64, this.#sum + other.#sum);
  }

  equals(other: Checksum): boolean {
    return this.rows === other.rows && this.#sum === other.#sum;
  }

  toString(): string {
    return this.#sum.toString(16).padStart(16, '0');
  }
}

function digestRow(row: Row): bigint {
  return createHash('sha256').update(encodeRow(row)).digest().readBigUInt64BE(0);
}

/** The key that distinguishes a row within its table; '' in a table without a key. */
export function keyOf(row: Row, { columns, key }: LogTable): string {
  return encodeRow(key.map((name) => row[columns.findIndex((column) => column.name === name)] ?? null));
}

/** A text that equal rows alone have in common. */
function encodeRow(row: Row): string {
  return row.map(encodeCell).join('');
}

function encodeCell(cell: Cell): string {
  if (cell === null) return 'n;';
  if (typeof cell === 'string') return `t${cell.length}:${cell};`;
  // There is one zero.
  if (typeof cell === 'number') return `r${cell + 0};`;
  return `b${Buffer.from(cell).toString('hex')};`;
}

/** The checksums of a table in both places, from all rows read. */
export interface Compared {
  readonly source: Checksum;
  readonly target: Checksum;
}

export interface TableSync {
  readonly source: SourcePlace;
  readonly target: TargetPlace;
  readonly altered: Altered;
  onRows(rows: number): void;
}

/**
 * Updates the target's table from the source, page by page. Existing rows are compared, and only differences are
 * written, so an interrupted copy continues.
 *
 * @param upTo the last key to copy, so that no row arrives before the job that it refers to; null: all
 * @param compared gets the sums of a source that nobody writes to; all that the target holds then has been read
 */
export async function syncTable(
  sync: TableSync,
  table: LogTable,
  upTo: number | null,
  compared?: Compared,
): Promise<void> {
  if (table.page === null) return await syncRange(sync, table, everything, compared);
  let after: number | null = null;
  for (;;) {
    const to = await findPageEnd(sync.source, table, { after, to: upTo });
    if (to === null) break;
    await syncRange(sync, table, { after, to }, compared);
    after = to;
  }
  if (compared !== undefined) await syncRange(sync, table, { after, to: null }, compared);
}

async function syncRange(sync: TableSync, table: LogTable, range: Range, compared?: Compared): Promise<void> {
  const { source, target, altered } = sync;
  const rows = (await readRows(source, table, range)).map((row) => fitRow(row, table.columns, target, altered));
  const sum = Checksum.of(rows);
  const theirs = await readRows(target, table, range);
  let found = Checksum.of(theirs);
  if (!found.equals(sum)) {
    await bringUp(target, table, rows, theirs);
    if (compared !== undefined) found = Checksum.of(await readRows(target, table, range));
  }
  compared?.source.add(sum);
  compared?.target.add(found);
  sync.onRows(rows.length);
}

/** Rows are changed in their place: what belongs to a row would go with it. */
async function bringUp(
  target: TargetPlace,
  table: LogTable,
  rows: readonly Row[],
  theirs: readonly Row[],
): Promise<void> {
  const { name, columns, key } = table;
  const known = new Map(theirs.map((row) => [keyOf(row, table), row]));
  const wanted = new Set(rows.map((row) => keyOf(row, table)));
  const all = columns.map((column) => column.name);
  const set = all.filter((column) => !key.includes(column));
  const isNew = (row: Row): boolean => {
    const found = key.length === 0 ? undefined : known.get(keyOf(row, table));
    return found === undefined || encodeRow(found) !== encodeRow(row);
  };
  await target.transaction(async (db) => {
    if (key.length === 0) await db.run(`delete from "${name}"`);
    else for (const [text, row] of known) if (!wanted.has(text)) await remove(db, table, row);
    for (const part of pagesOf(rows.filter(isNew), { ...ofStatement, most: target.engine === 'sqlite' ? 1 : 100 })) {
      try {
        await (key.length === 0 ? addRows(db, name, all, part) : putRows(db, name, all, part, { key, set }));
      } catch (error) {
        const { message } = ((error as Error).cause ?? error) as Error;
        throw new MoveRefused(describeRefused(message, table, part, target), { cause: error });
      }
    }
  });
}

async function remove(db: Statements, { name, columns, key }: LogTable, row: Row): Promise<void> {
  const values = key.map((part) => row[columns.findIndex((column) => column.name === part)]);
  await db.run(`delete from "${name}" where ${key.map((part) => `"${part}" = ?`).join(' and ')}`, values);
}

function describeRefused(message: string, table: LogTable, rows: readonly Row[], { name }: TargetPlace): string {
  const [first = ''] = rows.map((row) => row[0]);
  const last = rows.at(-1)?.[0] ?? '';
  const which =
    rows.length === 1 ? `The row ${first} of ${table.name}` : `The rows ${first} to ${last} of ${table.name}`;
  return `${which} cannot be written to ${name} (${message}). All is as before; the same call goes on from there.`;
}
