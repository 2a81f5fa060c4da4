import { createHash } from 'node:crypto';
import { type Storage, storageOf, type TableDefinition } from '../columns.ts';
import { tables } from '../tables.ts';
import type { LogPlace } from './place.ts';

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
export type Cell = string | number | Uint8Array | null;
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
export async function findPageEnd(place: LogPlace, table: LogTable, range: Range): Promise<number | null> {
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

export async function readRows(place: LogPlace, table: LogTable, range: Range): Promise<Row[]> {
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
export function fitRow(row: Row, columns: readonly LogColumn[], target: LogPlace, altered: Altered): Row {
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
export function encodeRow(row: Row): string {
  return row.map(encodeCell).join('');
}

function encodeCell(cell: Cell): string {
  if (cell === null) return 'n;';
  if (typeof cell === 'string') return `t${cell.length}:${cell};`;
  // There is one zero.
  if (typeof cell === 'number') return `r${cell + 0};`;
  return `b${Buffer.from(cell).toString('hex')};`;
}
