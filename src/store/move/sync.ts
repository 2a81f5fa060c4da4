import { addRows, ofStatement, pagesOf, putRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { MoveRefused, type SourcePlace, type TargetPlace } from './place.ts';
import {
  type Altered,
  Checksum,
  encodeRow,
  everything,
  findPageEnd,
  fitRow,
  keyOf,
  type LogTable,
  type Range,
  type Row,
  readRows,
} from './rows.ts';

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
