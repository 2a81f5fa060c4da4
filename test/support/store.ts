import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import type { SqliteStatement } from 'kysely';
import { onTestFinished } from 'vitest';
import { isCorruption } from '../../src/store/failures.ts';
import { type Driver, findDriver, loadBetterSqlite3, loadNodeSqlite } from '../../src/store/sqlite/driver.ts';
import { APPLICATION_ID } from '../../src/store/sqlite/file.ts';
import { openSqliteStore } from '../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../src/store/sqlite/store.ts';
import type { Store } from '../../src/store/store.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../src/system/place/state-folder.ts';
import { engine, type LogConnection } from './engines/engines.ts';

/** The state folder of a root, made. */
export function makeStateOf(root: string): StateFolder {
  const state = stateFolderOf(root);
  createStateFolder(state);
  return state;
}

/** A connection to a root's log, as a runner has one; closed with the test. */
export async function openStoreOf(root: string): Promise<Store> {
  const store = await engine.openStore(makeStateOf(root));
  onTestFinished(() => store.close());
  return store;
}

/** The same for what is SQLite's own. */
export async function openSqliteOf(root: string): Promise<SqliteStore> {
  const store = await openSqliteStore(makeStateOf(root));
  onTestFinished(() => store.close());
  return store;
}

/** For `describe.each`: a test must not open one file with both at the same time. */
export const drivers: readonly (readonly [string, Driver])[] = [
  ['better-sqlite3', loadBetterSqlite3()],
  ['node:sqlite', loadNodeSqlite()],
];

type Row = Readonly<Record<string, string | number | null>>;

/** Some servers take longer for a longer statement than for two. */
const ROWS_AT_ONCE = 1_000;

/** Inserts rows that have the same columns, as any server understands it. */
export function insertRows(change: LogConnection['change'], table: string, rows: readonly Row[]): void {
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    const some = rows.slice(from, from + ROWS_AT_ONCE);
    const values = some.map((row) => `(${Object.values(row).map(literal).join(', ')})`);
    change(`insert into ${table} (${Object.keys(some[0] ?? {}).join(', ')}) values ${values.join(', ')}`);
  }
}

function literal(value: string | number | null): string {
  return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value);
}

/** Explains how SQLite answers each query that a function asks of a root's log. */
export async function explainQueries(root: string, ask: (store: SqliteStore) => Promise<unknown>): Promise<string[]> {
  const { driver } = await findDriver();
  const plans: string[] = [];
  const isAsked = { now: false };
  const store = await openSqliteStore(makeStateOf(root), {
    driver: {
      ...driver,
      open: (...place) => {
        const connection = driver.open(...place);
        const explain = (text: string, values: readonly unknown[]): void => {
          if (!isAsked.now || !/^\s*(select|with|delete|update|insert.*\n\s*select)/i.test(text)) return;
          const rows = connection.prepare(`explain query plan ${text}`).all(values);
          plans.push(rows.map((row) => (row as { readonly detail: string }).detail).join('; '));
        };
        const prepare = (text: string): SqliteStatement => {
          const statement = connection.prepare(text);
          return {
            reader: statement.reader,
            iterate: (values) => statement.iterate(values),
            all: (values) => {
              explain(text, values);
              return statement.all(values);
            },
            run: (values) => {
              explain(text, values);
              return statement.run(values);
            },
          };
        };
        return Object.create(connection, { prepare: { value: prepare } });
      },
    },
  });
  onTestFinished(() => store.close());
  isAsked.now = true;
  await ask(store);
  isAsked.now = false;
  return plans;
}

const PAGE_BYTES = 4096;

/** A log that opens without complaint, and has a page of rubbish among its activity. */
export async function makeDamagedLog(folder: StateFolder): Promise<void> {
  const store = await openSqliteStore(folder);
  for (let index = 0; index < 50; index += 1) {
    const detail = `event ${index} `.repeat(300);
    await store.events.record([{ at: index, event: 'job-updated', detail }]);
  }
  await store.close();
  const bytes = readFileSync(folder.database);
  const start = Math.floor(bytes.indexOf('event 20 ') / PAGE_BYTES) * PAGE_BYTES;
  writeFileSync(folder.database, bytes.fill(0xff, start, start + PAGE_BYTES));
}

const MOST_PROBLEMS = 20;

/** Looks through the whole log, which takes seconds for a large one. What is wrong with it; empty: nothing. */
export async function checkIntegrity({ connection }: Pick<SqliteStore, 'connection'>): Promise<readonly string[]> {
  const all = <Row>(text: string): Row[] => connection.prepare(text).all([]) as Row[];
  try {
    const damage = all<{ integrity_check: string }>(`pragma integrity_check(${MOST_PROBLEMS})`)
      .map((row) => row.integrity_check)
      .filter((answer) => answer !== 'ok');
    const lost = all<{ table: string; parent: string; count: number }>(
      `select "table", parent, count(*) as count from pragma_foreign_key_check group by "table", parent`,
    );
    return [
      ...damage,
      ...lost.map(({ table, parent, count }) => `${count} rows of ${table} name a row of ${parent} that is not there`),
    ];
  } catch (error) {
    if (isCorruption(error)) return [(error as Error).message];
    throw error;
  }
}

/** As on a file system where only this kind of journal is to be had. */
export function withJournal(driver: Driver, journal: string): Driver {
  return {
    ...driver,
    open: (...place) => {
      const connection = driver.open(...place);
      const pragma = (text: string): unknown => connection.pragma(text.replace(/(?<=^journal_mode = )\w+/, journal));
      return Object.create(connection, { pragma: { value: pragma } });
    },
  };
}

/** A log of an older runner, before the first migration of this one. */
export function makeOldLog(folder: StateFolder): void {
  closeSync(openSync(folder.database, 'wx', 0o600));
  const connection = loadBetterSqlite3().open(folder.database, { timeoutMs: 0 });
  connection.pragma('auto_vacuum = incremental');
  connection.pragma(`application_id = ${APPLICATION_ID}`);
  connection.pragma('journal_mode = wal');
  connection.close();
}
