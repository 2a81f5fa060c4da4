import { existsSync, linkSync, renameSync } from 'node:fs';
import { utcStamp } from '../../system/base/values.ts';
import { createStateFolder, type StateFolder } from '../../system/place/state-folder.ts';
import { tellMovedFile } from '../describe-failure.ts';
import { buildLog, withStoreLock } from '../sqlite/create.ts';
import { type Connection, findDriver } from '../sqlite/driver.ts';
import {
  APPLICATION_ID,
  assertPlain,
  completeOpening,
  databaseSuffixes,
  judgeMarks,
  MOVED_ID,
  type Opening,
  removeDatabase,
  syncFile,
  withConnection,
} from '../sqlite/file.ts';
import { SqliteSession } from '../sqlite/session.ts';
import {
  type FoundColumn,
  type FoundColumns,
  type LogPlace,
  MoveRefused,
  type PlaceState,
  type SourcePlace,
  type TargetPlace,
} from './place.ts';

export async function openSqliteSource(state: StateFolder): Promise<SourcePlace> {
  const opening = await prepareOpening();
  const { database } = state;
  if (!existsSync(database)) return { ...nowhere(database), ...unable };
  assertPlain(database);
  const connection = opening.driver.open(database, { timeoutMs: opening.busyTimeoutMs });
  const session = new SqliteSession(connection);
  return {
    ...placeOf(session, database, stateOf(connection, database)),
    freeze: () => session.ask(async () => connection.exec('begin immediate')),
    shut: async () => {},
    thaw: async () => {
      if (session.inTransaction) connection.exec('rollback');
    },
    setAside: async (to) => {
      // This commit has no second try: it waits for readers of a log without WAL as long as they may take.
      connection.exec(`pragma busy_timeout = ${session.busyTimeoutMs}`);
      connection.exec('create table moved (place text not null)');
      connection.prepare('insert into moved values (?)').run([to]);
      for (const statement of shutAfterMoveTo(to)) connection.exec(statement);
      connection.exec(`pragma application_id = ${MOVED_ID}; commit`);
    },
  };
}

/** SQLite itself informs programs that have the file open already, or are no runners. */
const closed = ['jobs', 'workers', 'runs', 'events', 'pauses'].flatMap((table) =>
  ['insert', 'update'].map((verb) => ({ name: `moved_${table}_${verb}`, table, verb })),
);
const shutAfterMoveTo = (place: string): string[] => {
  const sentence = tellMovedFile(place).replaceAll("'", "''");
  return closed.map(
    ({ name, table, verb }) =>
      `create trigger ${name} before ${verb} on ${table} begin select raise(abort, '${sentence}'); end`,
  );
};

/** Has a log that was moved away used again, as it was then. False: it was not moved. */
export async function reopenSqlite(state: StateFolder): Promise<boolean> {
  const { database } = state;
  if (!existsSync(database)) return false;
  assertPlain(database);
  return withConnection(await prepareOpening(), database, (connection) => {
    if (stateOf(connection, database) !== 'moved') return false;
    const dropped = closed.map(({ name }) => `drop trigger ${name};`).join(' ');
    connection.exec(`begin immediate; ${dropped} drop table moved; pragma application_id = ${APPLICATION_ID}; commit`);
    return true;
  });
}

/** Filled under a name of its own, which it gives up for the log's once it is whole. */
export async function openSqliteTarget(state: StateFolder): Promise<TargetPlace> {
  const opening = await prepareOpening();
  const found = await findPlaceState(state, opening);
  const filled = `${state.database}.arriving`;
  if (found === 'log') return { ...nowhere(state.database), state: 'log', begin: refuse, finish: refuse };
  let place = existsSync(filled) ? await openFilled(filled, opening) : null;
  const demand = (): LogPlace => {
    if (place === null) throw new Error('nothing was begun');
    return place;
  };
  return {
    ...nowhere(state.database),
    state: place === null ? found : 'filling',
    all: (text, values) => demand().all(text, values),
    run: (text, values) => demand().run(text, values),
    transaction: (work) => demand().transaction(work),
    readColumns: () => (place === null ? readPristineColumns(opening) : place.readColumns()),
    readLastNumber: (table) => demand().readLastNumber(table),
    setLastNumber: (table, last) => demand().setLastNumber(table, last),
    begin: async () => {
      if (place !== null) return;
      createStateFolder(state);
      await buildLog(filled, opening, { event: null, lastWorker: 0 });
      place = await openFilled(filled, opening);
    },
    finish: async (nowMs) => {
      await demand().run('pragma wal_checkpoint(truncate)');
      await demand().close();
      syncFile(filled);
      // No other process makes a log in its place meanwhile.
      await withStoreLock(state, opening, async () => replaceMoved(state.database, filled, nowMs, opening));
    },
    close: async () => place?.close(),
  };
}

async function openFilled(path: string, opening: Opening): Promise<LogPlace> {
  const connection = opening.driver.open(path, { timeoutMs: 0 });
  // Keeps others that would fill it out, and gives them an error.
  connection.exec('pragma locking_mode = exclusive; pragma synchronous = normal; begin immediate; commit');
  return placeOf(new SqliteSession(connection), path, 'filling');
}

async function readPristineColumns(opening: Opening): Promise<FoundColumns> {
  const { migrateFile } = await import('../sqlite/migrations.ts');
  const pristine = new SqliteSession(opening.driver.open(':memory:', { timeoutMs: 0 }));
  try {
    migrateFile(pristine.connection);
    return await columnsOf(pristine);
  } finally {
    await pristine.close();
  }
}

/** The log that was moved away from here stays, under another name; at no moment there is none. */
function replaceMoved(path: string, filled: string, nowMs: number, opening: Opening): void {
  if (existsSync(path)) {
    // Files beside the old log would count as those of the new one.
    const mode = withConnection(opening, path, (old) => old.pragma('journal_mode = delete'));
    if (mode !== 'delete') throw new MoveRefused(`${path} is still in use; wait for its end with --wait 10m.`);
    keepName(path, `${path}.moved-${utcStamp(nowMs)}`);
  }
  renameSync(filled, path);
  removeDatabase(filled);
}

function keepName(path: string, kept: string): void {
  try {
    linkSync(path, kept);
  } catch {
    // No hard links here.
    renameSync(path, kept);
  }
}

async function findPlaceState({ database }: StateFolder, opening: Opening): Promise<PlaceState> {
  if (!databaseSuffixes.some((suffix) => existsSync(database + suffix))) return 'none';
  assertPlain(database);
  return withConnection(opening, database, (connection) => {
    const found = stateOf(connection, database);
    return found === 'log' && isEmpty(connection) ? 'none' : found;
  });
}

function isEmpty(connection: Connection): boolean {
  const rows = ['jobs', 'workers', 'runs'].map((table) => connection.prepare(`select 1 from ${table} limit 1`).all([]));
  return rows.every(({ length }) => length === 0);
}

async function prepareOpening(): Promise<Opening> {
  return completeOpening((await findDriver()).driver, {});
}

function stateOf(connection: Connection, path: string): PlaceState {
  if (connection.pragma('application_id') === MOVED_ID) return 'moved';
  const marks = judgeMarks(connection);
  if (marks.is === 'own') return 'log';
  throw new MoveRefused(`${path} is not an activity log of this runner (${marks.reason}).`);
}

const sql = {
  engine: 'sqlite',
  rowsPerInsert: 1,
  readsReals: 'exactly',
  digits: (column: string) => `cast(${column} as text)`,
  bytes: (column: string) => `length(cast(${column} as blob))`,
} as const;

function placeOf(session: SqliteSession, name: string, state: PlaceState): LogPlace {
  const ask = <T>(work: () => Promise<T>): Promise<T> => (session.inTransaction ? work() : session.ask(work));
  const lastOf = async (text: string, values: readonly unknown[]): Promise<number> =>
    (await ask(() => session.first<{ readonly last: number | null }>(text, values)))?.last ?? 0;
  return {
    ...sql,
    name,
    state,
    all: (text, values) => ask(() => session.all(text, values)),
    run: async (text, values) => void (await ask(() => session.run(text, values))),
    transaction: (work) => session.transaction(work, 'soon'),
    readColumns: () => ask(() => columnsOf(session)),
    readLastNumber: async (table) => {
      const numbered = await lastOf('select max(seq) as last from sqlite_sequence where name = ?', [table]);
      return Math.max(numbered, await lastOf(`select max(id) as last from "${table}"`, []));
    },
    setLastNumber: (table, last) =>
      ask(async () => {
        const text = `select 1 as one from sqlite_master where name = ? and (name = 'jobs' or sql like '%autoincrement%')`;
        if ((await session.first(text, [table])) === undefined) return;
        await session.run('delete from sqlite_sequence where name = ?', [table]);
        await session.run('insert into sqlite_sequence (name, seq) values (?, cast(? as integer))', [table, last]);
      }),
    close: () => session.close(),
  };
}

async function columnsOf(session: SqliteSession): Promise<FoundColumns> {
  const rows = await session.all<{ readonly table: string; readonly column: string }>(
    `select m.name as "table", c.name as "column" from sqlite_master as m, pragma_table_info(m.name) as c
     where m.type = 'table'`,
  );
  const tables = new Map<string, Map<string, FoundColumn>>();
  for (const { table, column } of rows) {
    tables.set(table, (tables.get(table) ?? new Map()).set(column, { limit: null, isNumber: false }));
  }
  return tables;
}

function nowhere(name: string): LogPlace {
  return {
    ...sql,
    ...{ name, state: 'none', all: refuse, run: refuse, transaction: refuse, readColumns: refuse },
    ...{ readLastNumber: refuse, setLastNumber: refuse, close: async () => {} },
  };
}

const unable = { freeze: refuse, shut: refuse, thaw: refuse, setAside: refuse };

async function refuse(): Promise<never> {
  throw new Error('there is no log');
}
