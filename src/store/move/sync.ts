import { MoveRefused, type SourcePlace, type TargetPlace } from './place.ts';
import {
  type Altered,
  type Cell,
  Checksum,
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
 * written, so an interrupted copy continues. It may go only up to a certain row, so that no row arrives before the job
 * that it refers to.
 */
export async function copyTable(sync: TableSync, table: LogTable, upTo: number | null): Promise<void> {
  if (table.page === null) return void (await syncRange(sync, table, everything));
  const last = await lastOf(sync.target, table);
  await eachPage(sync, table, upTo, async (range) => {
    const isNew = last === null || (range.after !== null && range.after >= last);
    const rows = await readFitting(sync, table, range);
    await (isNew ? insert(sync, table, rows) : bringUp(sync, table, rows, await readRows(sync.target, table, range)));
    sync.onRows(rows.length);
  });
}

/** The same to the last row, of a source that nobody writes to; all that the target holds then has been read. */
export async function completeTable(sync: TableSync, table: LogTable): Promise<Compared> {
  const compared = { source: new Checksum(), target: new Checksum() };
  if (table.page === null) {
    await syncRange(sync, table, everything, compared);
    return compared;
  }
  const end = await eachPage(sync, table, null, (range) => syncRange(sync, table, range, compared));
  await syncRange(sync, table, { after: end, to: null }, compared);
  return compared;
}

/** @returns the end of the last page */
async function eachPage(
  { source }: TableSync,
  table: LogTable,
  upTo: number | null,
  work: (range: Range) => Promise<void>,
): Promise<number | null> {
  for (let after: number | null = null; ; ) {
    const to = await findPageEnd(source, table, { after, to: upTo });
    if (to === null) return after;
    await work({ after, to });
    after = to;
  }
}

async function syncRange(sync: TableSync, table: LogTable, range: Range, compared?: Compared): Promise<void> {
  const rows = await readFitting(sync, table, range);
  const sum = Checksum.of(rows);
  const theirs = await readRows(sync.target, table, range);
  let found = Checksum.of(theirs);
  if (!found.equals(sum)) {
    await bringUp(sync, table, rows, theirs);
    found = Checksum.of(await readRows(sync.target, table, range));
  }
  compared?.source.add(sum);
  compared?.target.add(found);
  sync.onRows(rows.length);
}

async function readFitting({ source, target, altered }: TableSync, table: LogTable, range: Range): Promise<Row[]> {
  return (await readRows(source, table, range)).map((row) => fitRow(row, table.columns, target, altered));
}

/** Rows are changed in their place: what belongs to a row would go with it. */
async function bringUp(sync: TableSync, table: LogTable, rows: readonly Row[], theirs: readonly Row[]): Promise<void> {
  const { target } = sync;
  if (table.key.length === 0) {
    return await target.transaction(async () => {
      await target.run(`delete from "${table.name}"`);
      await insertAll(sync, table, rows);
    });
  }
  const known = new Map(theirs.map((row) => [keyOf(row, table), row]));
  const wanted = new Set(rows.map((row) => keyOf(row, table)));
  await target.transaction(async () => {
    for (const [key, row] of known) if (!wanted.has(key)) await remove(sync, table, row);
    const changed = rows.filter((row) => {
      const found = known.get(keyOf(row, table));
      return found !== undefined && !Checksum.of([row]).equals(Checksum.of([found]));
    });
    for (const row of changed) await update(sync, table, row);
    const missing = rows.filter((row) => !known.has(keyOf(row, table)));
    await insertAll(sync, table, missing);
  });
}

async function remove({ target }: TableSync, table: LogTable, row: Row): Promise<void> {
  const { text, values } = keyCondition(table, row);
  await target.run(`delete from "${table.name}" where ${text}`, values);
}

async function update({ target }: TableSync, table: LogTable, row: Row): Promise<void> {
  const { text, values } = keyCondition(table, row);
  const assignments = table.columns.map(({ name }) => `"${name}" = ?`).join(', ');
  await target.run(`update "${table.name}" set ${assignments} where ${text}`, [...row, ...values]);
}

function keyCondition({ columns, key }: LogTable, row: Row): { readonly text: string; readonly values: Cell[] } {
  return {
    text: key.map((name) => `"${name}" = ?`).join(' and '),
    values: key.map((name) => row[columns.findIndex((column) => column.name === name)] as Cell),
  };
}

async function insert(sync: TableSync, table: LogTable, rows: readonly Row[]): Promise<void> {
  await sync.target.transaction(() => insertAll(sync, table, rows));
}

/** Most bytes in one statement: servers of shared hosts accept none that is much longer. */
const STATEMENT_BYTES = 300_000;

async function insertAll({ target }: TableSync, table: LogTable, rows: readonly Row[]): Promise<void> {
  const names = table.columns.map(({ name }) => `"${name}"`).join(', ');
  const marks = `(${table.columns.map(() => '?').join(', ')})`;
  for (const part of partsOf(rows, target.rowsPerInsert)) {
    const places = part.map(() => marks).join(', ');
    try {
      await target.run(`insert into "${table.name}" (${names}) values ${places}`, part.flat());
    } catch (error) {
      throw new MoveRefused(describeRefused(((error as Error).cause ?? error) as Error, table, part, target), {
        cause: error,
      });
    }
  }
}

function* partsOf(rows: readonly Row[], most: number): Iterable<readonly Row[]> {
  let part: Row[] = [];
  let bytes = 0;
  for (const row of rows) {
    const own = row.reduce((sum: number, cell) => sum + (typeof cell === 'string' ? cell.length : 8), 0);
    if (part.length > 0 && (part.length >= most || bytes + own > STATEMENT_BYTES)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(row);
    bytes += own;
  }
  if (part.length > 0) yield part;
}

function describeRefused({ message }: Error, table: LogTable, rows: readonly Row[], { name }: TargetPlace): string {
  const [first = ''] = rows.map((row) => row[0]);
  const last = rows.at(-1)?.[0] ?? '';
  const which =
    rows.length === 1 ? `The row ${first} of ${table.name}` : `The rows ${first} to ${last} of ${table.name}`;
  return `${which} cannot be written to ${name} (${message}). All is as before; the same call goes on from there.`;
}

async function lastOf(place: TargetPlace, { name, page }: LogTable): Promise<number | null> {
  const [row] = await place.all<{ readonly newest: number | null }>(`select max("${page}") as newest from "${name}"`);
  return row?.newest ?? null;
}
