import { setTimeout as sleep } from 'node:timers/promises';
import { type FoundColumn, type LogPlace, MoveRefused, type SourcePlace, type TargetPlace } from './place.ts';
import {
  type Altered,
  Checksum,
  type Compared,
  type LogTable,
  syncTable,
  type TableSync,
  logTables as tables,
} from './rows.ts';

export interface Move {
  readonly source: SourcePlace;
  readonly target: TargetPlace;
  readonly isDryRun: boolean;
  /** How long to wait for present runs to end, in milliseconds. */
  readonly waitMs: number;
  readonly now: () => number;
  readonly onProgress: (progress: Progress) => void;
}

export interface Progress {
  /** `complete`: nobody else writes; later changes are copied, and all rows are compared. */
  readonly phase: 'copy' | 'wait' | 'complete';
  readonly table: string;
  readonly rows: number;
  readonly total: number;
}

export interface MovedTable {
  readonly table: string;
  readonly rows: number;
  /** The checksum over all rows, as read from both places; null: nothing was copied. */
  readonly checksum: string | null;
}

export interface MoveReport {
  readonly tables: readonly MovedTable[];
  /** One sentence about each value that was altered, or would be. */
  readonly notes: readonly string[];
}

/**
 * Copies the log while it is used, then keeps everybody from writing to it, copies what has changed meanwhile,
 * compares all rows of both, and hands over. At no instant both are used; killed at any, the next call goes on.
 *
 * @throws {MoveRefused} when it cannot be done now; the source is used as before then
 */
export async function moveLog(move: Move): Promise<MoveReport> {
  const { source, target, isDryRun } = move;
  assertStates(source, target);
  await assertSameColumns(tables, source, target);
  if (target.state !== 'none') await assertFits(tables, source, target);
  const totals = await countRows(source, tables);
  if (source.state === 'log' && move.waitMs === 0) await assertQuiet(source);
  if (isDryRun) return { tables: [...totals].map(([table, rows]) => ({ table, rows, checksum: null })), notes: [] };
  await target.begin();
  await assertFits(tables, source, target);
  const altered: Altered = { nul: 0, fraction: 0, bytes: 0 };
  const sync = (phase: Progress['phase'], table: LogTable, counted: Altered): TableSync => {
    let rows = 0;
    const total = totals.get(table.name) ?? 0;
    const onRows = (more: number): void => {
      rows += more;
      move.onProgress({ phase, table: table.name, rows, total });
    };
    return { source, target, altered: counted, onRows };
  };
  await copyAll(tables, source, (table, upTo) => syncTable(sync('copy', table, { ...altered }), table, upTo));
  await freeze(move);
  let isHandedOver = false;
  try {
    const compared = new Map<string, Compared>();
    for (const table of tables) {
      const sums = { source: new Checksum(), target: new Checksum() };
      await syncTable(sync('complete', table, altered), table, null, sums);
      compared.set(table.name, sums);
    }
    for (const table of tables) await handNumbersOver(source, target, table);
    assertEqual(compared, target);
    // Otherwise an earlier call was killed after everything but the handing over was done.
    if (source.state === 'log') await source.setAside(target.name);
    isHandedOver = true;
    await target.finish(move.now());
    return { tables: [...compared].map(toMoved), notes: describeAltered(altered, target) };
  } catch (error) {
    // The target may be in use by now, whatever has failed: the same call finishes the rest.
    if (source.state === 'log' && !isHandedOver) await source.thaw();
    throw error;
  }
}

function toMoved([table, { target }]: [string, Compared]): MovedTable {
  return { table, rows: target.rows, checksum: String(target) };
}

function assertStates({ state: from, name }: SourcePlace, { state: to, name: where }: TargetPlace): void {
  if (from === 'none') throw new MoveRefused(`No log to move was found at ${name}; say with --from where it is.`);
  if (from === 'filling')
    throw new MoveRefused(`A log is still being moved to ${name}: finish that first by the same call.`);
  if (from === 'moved' && to !== 'filling')
    throw new MoveRefused(`The log was moved away from ${name} already; name its present place with --from.`);
  if (to === 'log') {
    throw new MoveRefused(
      `There is a log in ${where} already that is in use, so nothing was copied. Name an empty database or ` +
        'schema, or move that log away.',
    );
  }
}

/** Compares the tables of both versions: neither may lack a column that the other has. */
async function assertSameColumns(tables: readonly LogTable[], source: LogPlace, target: TargetPlace): Promise<void> {
  // Nothing exists there yet: its tables will be those of this runner.
  const places = target.state === 'none' ? [source] : [source, target];
  for (const place of places) {
    const found = await place.readColumns();
    for (const { name, columns } of tables) {
      const wanted = columns.map((column) => column.name);
      const there = found.get(name) ?? new Map<string, FoundColumn>();
      const missing = wanted.find((column) => !there.has(column));
      const [strange] = [...there].flatMap(([column, { isNumber }]) =>
        isNumber || wanted.includes(column) ? [] : [column],
      );
      if (missing === undefined && strange === undefined) continue;
      const what = missing === undefined ? `has a column ${name}.${strange}` : `has no column ${name}.${missing}`;
      throw new MoveRefused(
        `${place.name} ${what}, unlike this runner's logs: use the newest runner on all machines, and try again.`,
      );
    }
  }
}

/** Finds values that do not fit into the target before anything is copied. */
async function assertFits(tables: readonly LogTable[], source: LogPlace, target: TargetPlace): Promise<void> {
  if (source.engine === target.engine) return;
  const limits = await target.readColumns();
  for (const { name } of tables) {
    const limited = [...(limits.get(name) ?? [])].flatMap(([column, { limit }]) =>
      limit === null ? [] : { column, limit },
    );
    if (limited.length === 0) continue;
    const longest = limited.map(({ column }) => `max(length("${column}")) as "${column}"`);
    const text = `select ${longest.join(', ')} from "${name}"`;
    const row = await source.ask((db) => db.first<Record<string, number | null>>(text));
    const long = limited.find(({ column, limit }) => (row?.[column] ?? 0) > limit);
    if (long === undefined) continue;
    throw new MoveRefused(
      `${name}.${long.column} holds a text of ${row?.[long.column]} characters in ${source.name}, and ${target.name} ` +
        `has room for ${long.limit}. Shorten or delete it, or move to PostgreSQL, which has no such limit.`,
    );
  }
}

async function countRows(place: LogPlace, tables: readonly LogTable[]): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const { name } of tables) {
    const text = `select count(*) as total from "${name}"`;
    const row = await place.ask((db) => db.first<{ readonly total: number }>(text));
    counts.set(name, row?.total ?? 0);
  }
  return counts;
}

/**
 * Rows that arrive during the copying may refer to others that did not exist before. So each table is copied only up to
 * its end at the start.
 */
async function copyAll(
  tables: readonly LogTable[],
  source: SourcePlace,
  copy: (table: LogTable, upTo: number | null) => Promise<void>,
): Promise<void> {
  const ends = new Map<LogTable, number | null>();
  // Read the end of each table before the ends of the tables that it refers to: so these include all rows referred to.
  for (const table of tables.toReversed().filter(({ page }) => page !== null)) {
    const text = `select max("${table.page}") as newest from "${table.name}"`;
    const row = await source.ask((db) => db.first<{ readonly newest: number | null }>(text));
    ends.set(table, row?.newest ?? null);
  }
  for (const table of tables) {
    const end = ends.get(table) ?? null;
    if (table.page === null || end !== null) await copy(table, end);
  }
}

const LOOK_EVERY_MS = 250;

/** Until nothing is at work: what ends during the last comparison would be recorded nowhere. */
async function freeze({ source, waitMs, onProgress }: Move): Promise<void> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    await source.freeze();
    try {
      await assertQuiet(source);
      await source.shut();
      // Checks again for callers that have begun in between.
      return await assertQuiet(source);
    } catch (error) {
      await source.thaw();
      if (!(error instanceof MoveRefused) || performance.now() > deadline) throw error;
    }
    onProgress({ phase: 'wait', table: '', rows: 0, total: 0 });
    await sleep(LOOK_EVERY_MS);
  }
}

interface AtWork {
  readonly id: number;
  readonly name: string | null;
  readonly host: string;
  readonly pid: number;
}

const NAMED = 5;

/** @throws {MoveRefused} that names who is at work */
async function assertQuiet(source: SourcePlace): Promise<void> {
  const { workers, jobs } = await source.ask(async (db) => ({
    workers: await db.all<AtWork>(
      `select w.id, w.tier as name, h.host, w.pid from workers as w join hosts as h on h.id = w.host_id
       where w.state = 'running' order by w.id limit ${NAMED}`,
    ),
    jobs: await db.all<{ readonly id: number; readonly name: string }>(
      `select id, name from jobs where claim_token is not null order by id limit ${NAMED}`,
    ),
  }));
  if (workers.length + jobs.length === 0) return;
  const names = [
    ...workers.map(({ name, pid, host }) => `${name ?? 'the queue'} (pid ${pid} on ${host})`),
    ...jobs.map(({ id, name }) => `job ${id} (${name})`),
  ];
  throw new MoveRefused(
    `Something is still running, and would record its end in the old log: ${names.join(', ')}. ` +
      'Wait for its end with --wait 10m; `npx folder-runner pause` keeps more from starting.',
  );
}

/** No number is given twice, also of what was deleted before. */
async function handNumbersOver(source: SourcePlace, target: TargetPlace, { name, key }: LogTable): Promise<void> {
  if (key.length !== 1 || key[0] !== 'id') return;
  await target.setLastNumber(name, await source.readLastNumber(name));
}

function assertEqual(compared: ReadonlyMap<string, Compared>, { name }: TargetPlace): void {
  for (const [table, { source, target }] of compared) {
    if (target.equals(source)) continue;
    throw new MoveRefused(
      `The table ${table} in ${name} differs from the original: ${target.rows} rows with checksum ${target}, ` +
        `instead of ${source.rows} with ${source}. The same call tries again; the old log stays in use.`,
    );
  }
}

function describeAltered({ nul, fraction, bytes }: Altered, { name }: TargetPlace): string[] {
  const say = (count: number, one: string, many: string): string[] =>
    count === 0 ? [] : [count === 1 ? `1 ${one}` : `${count} ${many}`];
  const isNul = `contained the character NUL, which ${name} cannot store: replaced by U+FFFD.`;
  return [
    ...say(nul, `text ${isNul}`, `texts ${isNul}`),
    ...say(fraction, 'figure was not a whole number: rounded.', 'figures were not whole numbers: rounded.'),
    ...say(bytes, 'text was stored as bytes: it is text now.', 'texts were stored as bytes: they are text now.'),
  ];
}
