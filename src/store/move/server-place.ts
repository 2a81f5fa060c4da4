import { describeServerFailure, MOVED_SQLSTATE } from '../server/connect/describe-failure.ts';
import { type DatabaseTarget, nameOfDatabase } from '../server/connect/url.ts';
import type { ServerConnection, ServerEngine } from '../server/engine.ts';
import { migrate, moveVersions } from '../server/migrate.ts';
import { loadEngine, openSession } from '../server/open.ts';
import { lockName } from '../shared/sql/dialect.ts';
import {
  type FoundColumn,
  type LogPlace,
  MoveRefused,
  type PlaceState,
  type SourcePlace,
  type TargetPlace,
} from './place.ts';

export async function openServerSource(target: DatabaseTarget): Promise<SourcePlace> {
  const { place, version } = await openPlace(target);
  return {
    ...place,
    // Before anything else is looked at: whoever connects from now on is turned away.
    freeze: () => version.mark('moved'),
    shut: () => version.shut(),
    thaw: () => version.clear('moved'),
    setAside: () => version.mark('moved'),
  };
}

export async function openServerTarget(target: DatabaseTarget): Promise<TargetPlace> {
  const { place, version } = await openPlace(target);
  return {
    ...place,
    begin: async () => {
      if (place.state === 'none') await makeTables(target);
      await version.lock();
      if (place.state === 'filling') return;
      await version.mark('filling');
      // A log that was moved away from here is replaced.
      await version.clear('moved');
    },
    finish: () => version.clear('filling'),
  };
}

/** Has a log that was moved away used again, as it was then. False: it was not moved. */
export async function reopenServer(target: DatabaseTarget): Promise<boolean> {
  const { place, version } = await openPlace(target);
  try {
    if (place.state === 'moved') await version.clear('moved');
    return place.state === 'moved';
  } finally {
    await place.close();
  }
}

interface OpenPlace {
  readonly place: LogPlace;
  readonly version: VersionMarks;
}

/** By one connection for as long as it takes: once that is lost, the next call goes on. */
async function openPlace(target: DatabaseTarget): Promise<OpenPlace> {
  const engine = await loadEngine(target);
  const sql = dialects[target.engine];
  const connection = await told(target, () => engine.connect(target, engine.dialect));
  const ask = async <Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> =>
    (await told(target, () => connection.query(text, values))).rows as Row[];
  if (sql.mayRest !== null) await ask(sql.mayRest);
  const version = versionMarks(ask, sql, nameOfDatabase(target));
  try {
    const state = await findState(ask, sql, version);
    return { place: { ...placeOf(connection, ask, sql, engine), name: nameOfDatabase(target), state }, version };
  } catch (error) {
    await connection.close();
    throw error;
  }
}

type Ask = <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

async function told<T>(target: DatabaseTarget, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw describeServerFailure(error, target) ?? error;
  }
}

async function makeTables(target: DatabaseTarget): Promise<void> {
  const session = await openSession(target);
  try {
    await told(target, () => migrate(session, target));
  } finally {
    await session.close();
  }
}

/** Rows of `schema_version` that keep everybody out. */
interface VersionMarks {
  mark(what: keyof typeof moveVersions): Promise<void>;
  clear(what: keyof typeof moveVersions): Promise<void>;
  has(what: keyof typeof moveVersions): Promise<boolean>;
  /** Closes a log that was moved away also for those who have it open, until the mark is cleared. */
  shut(): Promise<void>;
  /** Only one call at a time fills it. */
  lock(): Promise<void>;
}

function versionMarks(ask: Ask, { tryLock, shut, open }: ServerSql, name: string): VersionMarks {
  const has = async (what: keyof typeof moveVersions): Promise<boolean> =>
    (await ask('select 1 as one from schema_version where version = ?', [moveVersions[what]])).length > 0;
  return {
    has,
    mark: async (what) => {
      if (!(await has(what))) await ask('insert into schema_version (version) values (?)', [moveVersions[what]]);
    },
    clear: async (what) => {
      if (what === 'moved') for (const statement of open) await ask(statement);
      await ask('delete from schema_version where version = ?', [moveVersions[what]]);
    },
    shut: async () => {
      for (const statement of shut) await ask(statement);
    },
    lock: async () => {
      const [row] = await ask<{ readonly got: number }>(tryLock);
      if (Number(row?.got) !== 1)
        throw new MoveRefused(`Another \`npx folder-runner migrate\` is copying into ${name}; wait for its end.`);
    },
  };
}

async function findState(ask: Ask, { schema }: ServerSql, version: VersionMarks): Promise<PlaceState> {
  const tables = await ask(
    `select 1 as one from information_schema.tables where table_schema = ${schema} and table_name = 'schema_version'`,
  );
  if (tables.length === 0) return 'none';
  if (await version.has('filling')) return 'filling';
  if (await version.has('moved')) return 'moved';
  for (const table of ['jobs', 'workers', 'runs']) {
    if ((await ask(`select 1 as one from "${table}" limit 1`)).length > 0) return 'log';
  }
  return 'none';
}

function placeOf(
  connection: ServerConnection,
  ask: Ask,
  sql: ServerSql,
  { name }: ServerEngine,
): Omit<LogPlace, 'name' | 'state'> {
  return {
    engine: name,
    rowsPerInsert: 100,
    readsReals: name === 'mysql' ? 'as text' : 'exactly',
    digits: sql.digits,
    bytes: sql.bytes,
    all: ask,
    run: async (text, values) => void (await ask(text, values)),
    transaction: async (work) => {
      await ask('begin');
      try {
        const result = await work();
        await ask('commit');
        return result;
      } catch (error) {
        if (!connection.isLost) await ask('rollback');
        throw error;
      }
    },
    readColumns: async () => {
      const rows = await ask<ColumnRow>(
        `select table_name as "table", column_name as "column", character_maximum_length as "limit",
           case when ${sql.isNumber} then 1 else 0 end as numbers
         from information_schema.columns where table_schema = ${sql.schema} and ${sql.isOwn}`,
      );
      const tables = new Map<string, Map<string, FoundColumn>>();
      for (const { table, column, limit, numbers } of rows) {
        const found = { limit, isNumber: Number(numbers) === 1 };
        tables.set(table, (tables.get(table) ?? new Map()).set(column, found));
      }
      return tables;
    },
    readLastNumber: async (table) => {
      const [row] = await ask<{ readonly newest: number | null }>(`select max(id) as newest from "${table}"`);
      return Math.max(row?.newest ?? 0, await sql.readLast(ask, table));
    },
    setLastNumber: async (table, last) => await sql.setLast(ask, table, last),
    close: () => connection.close(),
  };
}

interface ColumnRow {
  readonly table: string;
  readonly column: string;
  readonly limit: number | null;
  readonly numbers: number;
}

interface ServerSql {
  readonly schema: string;
  /** Not computed from others. */
  readonly isOwn: string;
  readonly isNumber: string;
  readonly tryLock: string;
  /** Lets a connection rest for as long as the other place may take. */
  readonly mayRest: string | null;
  /** Closes tables to those who are connected already, and opens them again. */
  readonly shut: readonly string[];
  readonly open: readonly string[];
  digits(column: string): string;
  bytes(column: string): string;
  readLast(ask: Ask, table: string): Promise<number>;
  setLast(ask: Ask, table: string, last: number): Promise<void>;
}

/** Tables to which every change of the log adds a row. */
const growing = ['jobs', 'workers', 'runs', 'events', 'pauses'];

const dialects: Readonly<Record<DatabaseTarget['engine'], ServerSql>> = {
  postgres: {
    schema: 'current_schema()',
    isOwn: `is_generated = 'NEVER'`,
    isNumber: `is_identity = 'YES'`,
    tryLock: `select pg_try_advisory_lock(hashtext('folder-runner move ' || current_schema())) as got`,
    mayRest: null,
    shut: [
      `create or replace function refuse_moved() returns trigger language plpgsql as
        $$ begin raise exception 'the log was moved away' using errcode = '${MOVED_SQLSTATE}'; end $$`,
      ...growing.map(
        (table) => `create or replace trigger moved_${table} before insert or update on ${table}
          for each statement execute function refuse_moved()`,
      ),
    ],
    open: ['drop function if exists refuse_moved() cascade'],
    digits: (column) => `cast(${column} as text)`,
    bytes: (column) => `octet_length(${column})`,
    readLast: async (ask, table) => {
      const [sequence] = await ask<{ readonly name: string }>(`select pg_get_serial_sequence(?, 'id') as name`, [
        table,
      ]);
      const [row] = await ask<{ readonly reached: number }>(
        `select case when is_called then last_value else 0 end as reached from ${sequence?.name}`,
      );
      return row?.reached ?? 0;
    },
    setLast: async (ask, table, last) => {
      const values = [table, Math.max(last, 1), last > 0];
      await ask(
        `select setval(cast(pg_get_serial_sequence(?, 'id') as regclass), ?, cast(cast(? as text) as boolean))`,
        values,
      );
    },
  },
  mysql: {
    schema: 'database()',
    isOwn: `coalesce(generation_expression, '') = ''`,
    isNumber: `extra like '%auto_increment%'`,
    tryLock: `select get_lock(${lockName('folder-runner move')}, 0) as got`,
    mayRest: 'set session wait_timeout = 28800',
    // A trigger needs a right that shared hosts do not give.
    shut: [],
    open: [],
    digits: (column) => `cast(${column} as char)`,
    bytes: (column) => `length(${column})`,
    // `information_schema` may be a day old.
    readLast: async (ask, table) => {
      const [row] = await ask<Record<string, string>>(`show create table "${table}"`);
      const text = Object.values(row ?? {}).join(' ');
      return Number(/ AUTO_INCREMENT=(\d+)/.exec(text)?.[1] ?? 1) - 1;
    },
    setLast: async (ask, table, last) => void (await ask(`alter table "${table}" auto_increment = ${last + 1}`)),
  },
};
