import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { Store } from '../../src/store/contract.ts';
import { type StateFolder, stateFolderOf } from '../../src/system/place/state-folder.ts';
import { showTables } from './log-tables.ts';

/** What keeps a log, and how tests look at one from outside. */
export interface Engine {
  readonly name: string;
  /** Has whatever works in a root use it; left out: that does so anyway. */
  readonly choose?: (root: string) => void;
  /** As a runner opens it. */
  openStore(state: StateFolder): Promise<Store>;
  /** False before the first pass, and of ruins. */
  hasTables(root: string): boolean;
  connect(root: string, access: Access): LogConnection;
  /** To read again and again: to connect takes ten times as long as to read. */
  watch(root: string): LogReader;
  /** What the engine itself finds wrong. */
  findDamage(log: LogConnection): string[];
  /** Keeps everybody else from writing until it is closed, which commits; null: somebody else does so. */
  hold(root: string, patienceMs: number): LogConnection | null;
  /** As if a newer runner had written the log, which this one leaves alone then; or as before that. */
  setNewer(root: string, isNewer: boolean): void;
}

/** `read`: what {@link showTables} shows, at one instant. `lie`: nothing is checked. */
type Access = 'read' | 'change' | 'lie';

/** A log as any other program has it. */
export interface LogConnection {
  all<Row>(sql: string, ...values: readonly unknown[]): Row[];
  /** How many rows it changed. */
  change(sql: string, ...values: readonly unknown[]): number;
  close(): void;
}

export interface LogReader {
  /** At one instant, as `read` shows it. */
  look<T>(read: (log: LogConnection) => T): T;
  close(): void;
}

/** Of who else writes at the moment. */
const PATIENCE_MS = 15_000;

const sqlite: Engine = {
  name: 'sqlite',
  // Loaded only now: every test that has a root loads this file.
  openStore: async (state) => {
    const { openStore } = await import('../../src/store/sqlite/open.ts');
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
  setNewer: (root, isNewer) => {
    const database = new Database(stateFolderOf(root).database);
    const version = database.pragma('user_version', { simple: true }) as number;
    database.pragma(`user_version = ${version + (isNewer ? 1_000 : -1_000)}`);
    database.close();
  },
};

function openToRead(root: string): Database.Database {
  const database = new Database(stateFolderOf(root).database, { readonly: true, timeout: PATIENCE_MS });
  showTables(database);
  return database;
}

function connectionOf(database: Database.Database): LogConnection {
  return {
    all: <Row>(sql: string, ...values: readonly unknown[]) => database.prepare<unknown[], Row>(sql).all(...values),
    change: (sql, ...values) => database.prepare(sql).run(...values).changes,
    close: () => database.close(),
  };
}

/** Suites that take an engine (`takesEngine`) run once on each. */
export const engines: readonly Engine[] = [sqlite];

/** The one that is tested by this process, and by what it starts. */
export const engine = engines.find(({ name }) => name === process.env.TEST_ENGINE) ?? sqlite;
