import { type ColumnDefinition, hasValue, indexesOn, literal, now, type TableDefinition } from '../columns.ts';
import type { ServerDialect } from '../shared/sql/dialect.ts';
import { quoted } from '../shared/sql/rows.ts';
import { viewsOf } from '../shared/views.ts';
import { tables } from '../tables.ts';

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
  return [[...types, ...made, ...indexes, ...triggers, ...views]];
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
    ...Object.entries<ColumnDefinition>(columns).map(([column, each]) => describeColumn(dialect, column, each)),
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
