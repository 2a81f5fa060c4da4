import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { type Engine, type LogConnection, type ViewSql, viewsOf } from './engine.ts';

/** Of who else writes at the moment. */
const PATIENCE_MS = 15_000;

export const sqlite: Engine = {
  name: 'sqlite',
  environment: () => ({}),
  choose: () => () => {},
  // Loaded only now: every test that has a root loads this file.
  openStore: async (state) => {
    const { openStore } = await import('../../../src/store/open.ts');
    return await openStore(state);
  },
  hasTables: (root) => {
    const path = stateFolderOf(root).database;
    if (!existsSync(path)) return false;
    const database = new Database(path, { readonly: true, timeout: PATIENCE_MS });
    try {
      const newest = database.prepare("select 1 from sqlite_master where name = 'pauses'");
      return newest.get() !== undefined;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'SQLITE_NOTADB') throw error;
      return false;
    } finally {
      database.close();
    }
  },
  connect: (root, access) => {
    if (access === 'read') {
      const database = openToRead(root);
      database.exec('begin');
      return connectionOf(database);
    }
    const database = new Database(stateFolderOf(root).database, { timeout: PATIENCE_MS });
    if (access === 'lie') {
      database.pragma('foreign_keys = off');
      database.pragma('ignore_check_constraints = on');
    }
    return connectionOf(database);
  },
  watch: (root) => {
    const database = openToRead(root);
    return {
      look: (read) => database.transaction(() => read(connectionOf(database)))(),
      close: () => database.close(),
    };
  },
  findDamage: ({ all }) => [
    ...all<{ integrity_check: string }>('pragma integrity_check')
      .map((row) => row.integrity_check)
      .filter((text) => text !== 'ok'),
    ...all('pragma foreign_key_check').map((row) => `foreign key: ${JSON.stringify(row)}`),
  ],
  hold: (root, patienceMs) => {
    const database = new Database(stateFolderOf(root).database, { timeout: patienceMs });
    try {
      database.exec('begin immediate');
    } catch (error) {
      database.close();
      if ((error as NodeJS.ErrnoException).code !== 'SQLITE_BUSY') throw error;
      return null;
    }
    const log = connectionOf(database);
    return {
      ...log,
      close: () => {
        database.exec('commit');
        log.close();
      },
    };
  },
  refuse: (root, what) => {
    const change = (sql: string): void => {
      const database = new Database(stateFolderOf(root).database, { timeout: PATIENCE_MS });
      database.exec(sql);
      database.close();
    };
    change(`create trigger "${what}" before ${what} begin select raise(abort, 'no room'); end`);
    return () => change(`drop trigger "${what}"`);
  },
  setNewer: (root, isNewer) => {
    const database = new Database(stateFolderOf(root).database);
    const version = database.pragma('user_version', { simple: true }) as number;
    database.pragma(`user_version = ${version + (isNewer ? 1_000 : -1_000)}`);
    database.close();
  },
};

const sql: ViewSql = {
  table: (name) => `main.${name}`,
  integer: (text) => `cast(${text} as integer)`,
  before: (text, mark) => `substr(${text}, 1, instr(${text}, '${mark}') - 1)`,
};

function openToRead(root: string): Database.Database {
  const database = new Database(stateFolderOf(root).database, { readonly: true, timeout: PATIENCE_MS });
  // Only for this connection: nothing of it gets into the file.
  for (const [name, query] of Object.entries(viewsOf(sql))) database.exec(`create temp view ${name} as ${query}`);
  return database;
}

function connectionOf(database: Database.Database): LogConnection {
  return {
    all: <Row>(sql: string, ...values: readonly unknown[]) => database.prepare<unknown[], Row>(sql).all(...values),
    change: (sql, ...values) => database.prepare(sql).run(...values).changes,
    close: () => database.close(),
  };
}
