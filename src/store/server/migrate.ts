import { errorCode } from '../../system/base/errors.ts';
import { addedBy, type ColumnDefinition, hasValue, indexesOn, literal, now, type TableDefinition } from '../columns.ts';
import { StoreUnavailable } from '../failures.ts';
import { isUnreleased, laterVersions, SCHEMA_VERSION, stepsTo } from '../schema.ts';
import type { ServerDialect } from '../shared/sql/dialect.ts';
import { quoted } from '../shared/sql/rows.ts';
import { viewsOf } from '../shared/views.ts';
import { tables } from '../tables.ts';
import { tellMoved } from './connect/describe-failure.ts';
import { type DatabaseTarget, nameOfDatabase } from './connect/url.ts';
import type { ServerSession } from './session.ts';

/** Brings the tables to the newest schema, once however many machines try. Newer tables than this are left alone. */
export async function migrate(session: ServerSession, target: DatabaseTarget): Promise<void> {
  const { engine } = session;
  if ((await readSchemaVersion(session, target)) === SCHEMA_VERSION) return;
  await session.withConnection(async (connection) => {
    if (target.engine === 'postgres') await makeSchema(session, target);
    await engine.lockMigration(connection, async () => {
      await connection.query('create table if not exists schema_version (version bigint not null primary key)', []);
      const { rows } = await connection.query('select max(version) as version from schema_version', []);
      const version = (rows[0] as { version: number | null } | undefined)?.version ?? 0;
      await engine.make(connection, engine.migrations.slice(stepsTo(version)).flat());
      if (version >= SCHEMA_VERSION) return;
      await connection.query(`insert into schema_version (version) values (${SCHEMA_VERSION})`, []);
    });
  });
}

/** Only where there is none: who may use one may not always make one. */
async function makeSchema(session: ServerSession, { schema }: DatabaseTarget): Promise<void> {
  const found = await session.first('select 1 as one from pg_catalog.pg_namespace where nspname = ?', [schema]);
  if (found !== undefined) return;
  try {
    await session.run(`create schema if not exists "${schema}"`);
  } catch (error) {
    // Another machine makes it at this moment: PostgreSQL refuses the second one in spite of `if not exists`.
    if (!/^(23505|42P06)$/.test(errorCode(error))) throw error;
  }
}

/**
 * 0: there are no tables yet.
 *
 * @throws {StoreUnavailable} when they are a newer runner's, or those of another program
 */
export async function readSchemaVersion(session: ServerSession, target: DatabaseTarget): Promise<number> {
  const version = await session.ask(async () => {
    try {
      const row = await session.first<{ version: number | null }>('select max(version) as version from schema_version');
      if (row?.version != null) return row.version;
    } catch (error) {
      if (!/^(42P01|42703|ER_NO_SUCH_TABLE|ER_BAD_FIELD_ERROR)$/.test(errorCode(error))) throw error;
    }
    await demandOwn(session, target);
    return 0;
  });
  demandUsable(version, target);
  return version;
}

/**
 * For whoever has used the tables before, and connects again.
 *
 * @throws {StoreUnavailable} when they are not to be used any more
 */
export async function demandStillUsable(session: ServerSession, target: DatabaseTarget): Promise<void> {
  const row = await session.first<{ version: number | null }>('select max(version) as version from schema_version');
  demandUsable(row?.version ?? 0, target);
}

/** @throws {StoreUnavailable} when tables of this version are not to be used by this runner */
export function demandUsable(version: number, target: DatabaseTarget): void {
  if (isUnreleased(version)) {
    throw new StoreUnavailable(
      'unreleased',
      `The tables in ${nameOfDatabase(target)} were made before the first release (schema ${version}): ` +
        'name another database, or drop them.',
    );
  }
  if (version <= SCHEMA_VERSION) return;
  demandInUse(version, nameOfDatabase(target));
  throw new StoreUnavailable(
    'newer-schema',
    `The tables in ${nameOfDatabase(target)} were made by a newer runner (schema ${version}, this one knows ` +
      `${SCHEMA_VERSION}). Update the package on this machine with \`npm install folder-runner@latest\`.`,
  );
}

/** Versions that no schema has: nobody uses a log that has one of them. */
export const moveVersions = { filling: 1_000_000_000, moved: 2_000_000_000 } as const;

function demandInUse(version: number, place: string): void {
  if (version === moveVersions.filling) {
    const cure = 'call the same `npx folder-runner migrate` again to finish it; until then the log cannot be used';
    throw new StoreUnavailable('foreign', `A log is being moved to ${place}: ${cure}.`);
  }
  if (version === moveVersions.moved) throw new StoreUnavailable('foreign', tellMoved(place));
}

/** Names of tables that other programs have, too. */
const common = ['schema_version', 'jobs', 'runs', 'workers', 'events', 'scripts', 'hosts', 'tokens', 'metrics'];

/** Tables without a version are another program's, but for those whose making broke off. */
async function demandOwn(session: ServerSession, target: DatabaseTarget): Promise<void> {
  const place = target.engine === 'postgres' ? '?' : 'database()';
  const found = await session.all<{ name: string; columns: number }>(
    `select table_name as name, count(*) as columns from information_schema.columns
     where table_schema = ${place} and table_name in (${common.map((name) => `'${name}'`).join(', ')})
     group by table_name`,
    target.engine === 'postgres' ? [target.schema] : [],
  );
  const isBegun = found.some(({ name, columns }) => name === 'schema_version' && columns === 1);
  const [foreign] = found.map(({ name }) => name);
  if (isBegun || foreign === undefined) return;
  const cure =
    target.engine === 'postgres' ? 'add `schema=another_name` to the address' : 'name a database for the runner alone';
  throw new StoreUnavailable(
    'foreign',
    `There is a table "${foreign}" of another program in ${nameOfDatabase(target)}: ${cure}.`,
  );
}

/** Statements that lead to a version of the schema: from no tables to the first one, and from each to the next. */
export function migrationsOf(
  dialect: ServerDialect,
  { types = [], triggers = [] }: OfEngine,
): readonly (readonly string[])[] {
  const all = Object.entries<TableDefinition>(tables);
  const made = all.map(([name, table]) => createTable(dialect, name, table));
  // MySQL's are made with their table: alone each takes as long as that.
  const indexes = dialect.name === 'mysql' ? [] : all.flatMap(([name, table]) => createIndexes(dialect, name, table));
  const views = Object.entries(viewsOf(dialect)).map(([name, select]) => `create or replace view ${name} as ${select}`);
  const added = laterVersions.map((version) =>
    all.flatMap(([name, table]) => addColumns(dialect, name, table, version)),
  );
  return [[...types, ...made, ...indexes, ...triggers, ...views], ...added];
}

/** Statements of one server alone. */
interface OfEngine {
  readonly types?: readonly string[];
  readonly triggers?: readonly string[];
}

/** `if not exists`: where what makes tables cannot be undone, it is done again. */
function createTable(dialect: ServerDialect, name: string, table: TableDefinition): string {
  const { columns, key, unique = [], computedOnMysql = [] } = table;
  const isMysql = dialect.name === 'mysql';
  const parts = [
    ...(key.length === 0 ? [`id ${dialect.types.id}`] : []),
    ...addedBy(undefined, table).map(([column, each]) => describeColumn(dialect, column, each)),
    ...(isMysql ? computedOnMysql : []),
    ...Object.entries(columns).flatMap(([column, { facts }]) =>
      facts.partOf === undefined || facts.partOf.butOn === dialect.name
        ? []
        : [`foreign key (${column}) references ${facts.partOf.table} (id) on delete cascade`],
    ),
    ...(key.length === 0 || key[0] === 'id' ? [] : [`primary key (${key.map(quoted).join(', ')})`]),
    ...(unique.length > 0 ? [`unique (${unique.join(', ')})`] : []),
    ...(isMysql
      ? indexesOn('mysql', table).map((index) => `${index.isUnique ? 'unique ' : ''}key ${index.name} ${index.on}`)
      : []),
  ];
  return `create table if not exists ${name} (${parts.join(', ')})${isMysql ? ofMysql : ''}`;
}

function addColumns(dialect: ServerDialect, name: string, table: TableDefinition, version: number): string[] {
  return addedBy(version, table).map(
    ([column, each]) => `alter table ${name} add column ${describeColumn(dialect, column, each)}`,
  );
}

/** Texts are equal only if all their bytes are. One of the two is a comment: the first of MariaDB, the other of MySQL. */
const ofMysql = ` engine = InnoDB row_format = dynamic default character set utf8mb4
  /*!80000 collate utf8mb4_0900_bin */ /*M!100600 collate utf8mb4_nopad_bin */`;

function describeColumn(dialect: ServerDialect, name: string, { facts }: ColumnDefinition): string {
  const { kind, isNullable, isUnique, default: otherwise, check, values, areCheckedBy } = facts;
  if (kind === 'id') return `${quoted(name)} ${dialect.types.id}`;
  return [
    `${quoted(name)} ${dialect.types[kind]}`,
    isNullable ? '' : 'not null',
    otherwise === undefined ? '' : `default ${defaultOf(dialect, kind, otherwise)}`,
    isUnique ? 'unique' : '',
    check?.servers === undefined ? '' : `check (${check.servers})`,
    values !== undefined && areCheckedBy === 'all' ? `check (${hasValue(name, values)})` : '',
  ].join(' ');
}

/** A text of more than a few bytes has a default only as an expression in MySQL. */
function defaultOf({ nowMs }: ServerDialect, kind: string, value: string | number | typeof now): string {
  if (value === now) return `(${nowMs})`;
  return kind === 'json' ? `(${literal(value)})` : literal(value);
}

function createIndexes({ name: engine }: ServerDialect, table: string, facts: TableDefinition): string[] {
  return indexesOn(engine, facts).map(
    ({ name, isUnique, on }) => `create ${isUnique ? 'unique ' : ''}index if not exists ${name} on ${table} ${on}`,
  );
}
