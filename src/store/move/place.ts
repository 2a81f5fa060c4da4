import type { EngineName } from '../columns.ts';
import type { Statements } from '../shared/sql/statements.ts';

/** The present or future place of a log: one file, or a database on a server. */
export interface LogPlace {
  readonly engine: EngineName;
  /** For people; without secrets. */
  readonly name: string;
  readonly state: PlaceState;
  ask<T>(work: (db: Statements) => Promise<T>): Promise<T>;
  transaction(work: (db: Statements) => Promise<void>): Promise<void>;
  readColumns(): Promise<FoundColumns>;
  /** The highest number that a row of the table ever had. */
  readLastNumber(table: string): Promise<number>;
  setLastNumber(table: string, last: number): Promise<void>;
  close(): Promise<void>;
}

/** By table, by column. */
type FoundColumns = ReadonlyMap<string, ReadonlyMap<string, FoundColumn>>;

export interface FoundColumn {
  /** How many characters it holds at most; null: any number. */
  readonly limit: number | null;
  /** Whether a server numbers its rows by it: it may have such a column for itself. */
  readonly isNumber: boolean;
}

/**
 * `none`: nothing is there. `filling`: a log that is being moved there, and nobody uses yet. `moved`: what is left of
 * one that was moved away, and nobody uses any more.
 */
export type PlaceState = 'none' | 'log' | 'filling' | 'moved';

export interface SourcePlace extends LogPlace {
  /** From now on nobody else writes; of a server: nobody who is not yet connected. */
  freeze(): Promise<void>;
  /** Nor anybody who is connected, where the server can keep them from it: MySQL and MariaDB cannot. */
  shut(): Promise<void>;
  /** Restores the earlier state. */
  thaw(): Promise<void>;
  /** Closes the log for good: later callers get the new place of the log. */
  setAside(to: string): Promise<void>;
  /** Has a log that was moved away used again, as it was then. False: it was not moved. */
  reopen(): Promise<boolean>;
}

export interface TargetPlace extends LogPlace {
  /** Creates missing tables, which only this call uses until it is finished. */
  begin(): Promise<void>;
  finish(nowMs: number): Promise<void>;
}

/** The move is impossible now; nothing has changed. */
export class MoveRefused extends Error {
  override readonly name = 'MoveRefused';
}

interface Session extends Statements {
  ask<T>(work: () => Promise<T>): Promise<T>;
  transaction<T>(work: () => Promise<T>, durability: 'soon'): Promise<T>;
  close(): Promise<void>;
}

/**
 * The functions that all places share.
 *
 * @param open the session, or throws where there is none
 */
export function placeOn(
  open: () => Session,
  { engine, name, state }: Pick<LogPlace, 'engine' | 'name' | 'state'>,
): Omit<LogPlace, 'close'> {
  const sql = texts[engine];
  const ask = <T>(work: (db: Statements) => Promise<T>): Promise<T> => open().ask(() => work(open()));
  return {
    ...{ engine, name, state, ask },
    transaction: (work) => open().transaction(() => work(open()), 'soon'),
    readColumns: async () => {
      const tables = new Map<string, Map<string, FoundColumn>>();
      for (const { table, column, limit, numbers } of await ask((db) => db.all<ColumnRow>(sql.columns))) {
        const found = { limit, isNumber: Number(numbers) === 1 };
        tables.set(table, (tables.get(table) ?? new Map()).set(column, found));
      }
      return tables;
    },
    readLastNumber: (table) =>
      ask(async (db) => {
        const row = await db.first<{ readonly newest: number | null }>(`select max(id) as newest from "${table}"`);
        return Math.max(row?.newest ?? 0, await sql.readLast(db, table));
      }),
    setLastNumber: (table, last) => ask((db) => sql.setLast(db, table, last)),
  };
}

interface ColumnRow {
  readonly table: string;
  readonly column: string;
  readonly limit: number | null;
  readonly numbers: number;
}

interface PlaceTexts {
  /** Selects all columns that are not computed from others: `ColumnRow`. */
  readonly columns: string;
  readLast(db: Statements, table: string): Promise<number>;
  setLast(db: Statements, table: string, last: number): Promise<void>;
}

const columnsOfServer = (schema: string, isOwn: string, isNumber: string): string =>
  `select table_name as "table", column_name as "column", character_maximum_length as "limit",
     case when ${isNumber} then 1 else 0 end as numbers
   from information_schema.columns where table_schema = ${schema} and ${isOwn}`;

const texts: Readonly<Record<EngineName, PlaceTexts>> = {
  sqlite: {
    columns: `select m.name as "table", c.name as "column", null as "limit", 0 as numbers
      from sqlite_master as m, pragma_table_info(m.name) as c where m.type = 'table'`,
    readLast: async (db, table) => {
      const text = 'select max(seq) as last from sqlite_sequence where name = ?';
      return (await db.first<{ readonly last: number | null }>(text, [table]))?.last ?? 0;
    },
    // Jobs have no AUTOINCREMENT, and a row there only where their newest one was deleted.
    setLast: async (db, table, last) => {
      const text = `select 1 as one from sqlite_master where name = ? and (sql like '%autoincrement%'
        or (name = 'jobs' and ? > (select coalesce(max(id), 0) from jobs)))`;
      if ((await db.first(text, [table, last])) === undefined) return;
      await db.run('delete from sqlite_sequence where name = ?', [table]);
      await db.run('insert into sqlite_sequence (name, seq) values (?, cast(? as integer))', [table, last]);
    },
  },
  postgres: {
    columns: columnsOfServer('current_schema()', `is_generated = 'NEVER'`, `is_identity = 'YES'`),
    readLast: async (db, table) => {
      const text = `select pg_get_serial_sequence(?, 'id') as name`;
      const sequence = await db.first<{ readonly name: string }>(text, [table]);
      const row = await db.first<{ readonly reached: number }>(
        `select case when is_called then last_value else 0 end as reached from ${sequence?.name}`,
      );
      return row?.reached ?? 0;
    },
    setLast: async (db, table, last) => {
      const text = `select setval(cast(pg_get_serial_sequence(?, 'id') as regclass), ?, cast(cast(? as text) as boolean))`;
      await db.all(text, [table, Math.max(last, 1), last > 0]);
    },
  },
  mysql: {
    columns: columnsOfServer('database()', `coalesce(generation_expression, '') = ''`, `extra like '%auto_increment%'`),
    // `information_schema` may be a day old.
    readLast: async (db, table) => {
      const text = Object.values((await db.first<Record<string, string>>(`show create table "${table}"`)) ?? {}).join(
        ' ',
      );
      return Number(/ AUTO_INCREMENT=(\d+)/.exec(text)?.[1] ?? 1) - 1;
    },
    setLast: async (db, table, last) => void (await db.run(`alter table "${table}" auto_increment = ${last + 1}`)),
  },
};
