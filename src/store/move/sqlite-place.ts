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
import { MoveRefused, type PlaceState, placeOn, type SourcePlace, type TargetPlace } from './place.ts';

export async function openSqliteSource({ database }: StateFolder): Promise<SourcePlace> {
  const session = existsSync(database) ? openFile(database, await prepareOpening()) : null;
  const demand = (): SqliteSession => session ?? noLog();
  const state = session === null ? 'none' : stateOf(session.connection, database);
  return {
    ...placeOn(demand, { engine: 'sqlite', name: database, state }),
    freeze: () => demand().ask(async () => demand().connection.exec('begin immediate')),
    shut: async () => {},
    thaw: async () => {
      if (session?.inTransaction) session.connection.exec('rollback');
    },
    setAside: async (to) => {
      const { connection, busyTimeoutMs } = demand();
      // This commit has no second try: it waits for readers of a log without WAL as long as they may take.
      connection.exec(`pragma busy_timeout = ${busyTimeoutMs}`);
      connection.exec('create table moved (place text not null)');
      connection.prepare('insert into moved values (?)').run([to]);
      for (const statement of shutAfterMoveTo(to)) connection.exec(statement);
      connection.exec(`pragma application_id = ${MOVED_ID}; commit`);
    },
    reopen: async () => {
      if (state !== 'moved') return false;
      const dropped = closed.map(({ name }) => `drop trigger ${name};`).join(' ');
      const text = `begin immediate; ${dropped} drop table moved; pragma application_id = ${APPLICATION_ID}; commit`;
      await demand().ask(async () => demand().connection.exec(text));
      return true;
    },
    close: async () => await session?.close(),
  };
}

function openFile(path: string, { driver, busyTimeoutMs }: Opening): SqliteSession {
  assertPlain(path);
  return new SqliteSession(driver.open(path, { timeoutMs: busyTimeoutMs }));
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

/** Filled under a name of its own, which it gives up for the log's once it is whole. */
export async function openSqliteTarget(state: StateFolder): Promise<TargetPlace> {
  const opening = await prepareOpening();
  const { database } = state;
  const filled = `${database}.arriving`;
  const isUsed = holdsLog(database, opening);
  let session = !isUsed && existsSync(filled) ? openFilled(filled, opening) : null;
  const demand = (): SqliteSession => session ?? noLog();
  const found = session === null ? 'none' : 'filling';
  return {
    ...placeOn(demand, { engine: 'sqlite', name: database, state: isUsed ? 'log' : found }),
    begin: async () => {
      if (session !== null) return;
      createStateFolder(state);
      await buildLog(filled, opening, { event: null, lastWorker: 0 });
      session = openFilled(filled, opening);
    },
    finish: async (nowMs) => {
      demand().connection.pragma('wal_checkpoint(truncate)');
      await demand().close();
      syncFile(filled);
      // No other process makes a log in its place meanwhile.
      await withStoreLock(state, opening, async () => replaceMoved(database, filled, nowMs, opening));
    },
    close: async () => await session?.close(),
  };
}

function openFilled(path: string, opening: Opening): SqliteSession {
  const session = openFile(path, { ...opening, busyTimeoutMs: 0 });
  // Keeps others that would fill it out, and gives them an error.
  session.connection.exec('pragma locking_mode = exclusive; pragma synchronous = normal; begin immediate; commit');
  return session;
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

/** Whether a log is in use there: neither moved away, nor empty. */
function holdsLog(database: string, opening: Opening): boolean {
  if (!databaseSuffixes.some((suffix) => existsSync(database + suffix))) return false;
  assertPlain(database);
  return withConnection(opening, database, (connection) => {
    const isFound = (table: string): boolean => connection.prepare(`select 1 from ${table} limit 1`).all([]).length > 0;
    return stateOf(connection, database) === 'log' && ['jobs', 'workers', 'runs'].some(isFound);
  });
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

function noLog(): never {
  throw new Error('there is no log');
}
