import { fitsAny, fitsByPatterns, type RegExpDialect } from './globs.ts';

/** How what differs between the engines is written in SQL. All else is written so that each of them understands it. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres' | 'mysql';
  /** Whether it is among the values of a list, which is one value of the statement: its text stays the same. */
  isIn(expression: string): string;
  /** Whether a text fits one of these globs, which are SQLite's: case counts, `*`, `?`, `[a-z]`, `[^x]`. */
  fits(expression: string, globs: readonly string[]): Condition;
  /** A job's name without parameters. */
  handlerOf(name: string): string;
  /** Number of the worker of the runner whose claim has this token; null: it is somebody else's. */
  workerOf(token: string): string;
  /** The whole number that an expression is. */
  integer(expression: string): string;
  /** The greater of two values that are known. */
  greatest(one: string, other: string): string;
  /** The smaller of two values that are known. */
  least(one: string, other: string): string;
  /** The last characters of a text. */
  last(text: string, characters: number): string;
  /** Bytes as a text: drivers make an object of its own, outside of the heap, for the bytes of each row. */
  hex(bytes: string): string;
  /** Behind a `select`: locks its rows until the transaction ends, and waits for those that another session has locked. */
  readonly forUpdate: string;
  /** The same beside other sessions that lock them so, too. */
  readonly forShare: string;
  /** As `forUpdate`, but leaves out the rows that another session has locked. */
  readonly skipLocked: string;
  /** The table, to be read by the index that is named for the engine: by itself it would take another one. */
  byIndex(table: string, index: { readonly sqlite?: string; readonly mysql?: string }): string;
  /** Two tables, to be read in this order. */
  readonly join: 'join' | 'cross join';
  /** Whole milliseconds since 1970, by the clock of the engine. */
  readonly nowMs: string;
  /**
   * `insert …` with what becomes of a row whose key is taken: each of these columns is assigned; `new.x` stands for
   * the value that was to be inserted. No assignment: the row stays as it is. An `insert … select` has a `where`.
   */
  upsert(insert: string, key: readonly string[], assignments: readonly (readonly [string, string])[]): string;
}

/** A condition with the values that it takes. */
export interface Condition {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** A dialect with the other differences between servers. */
export interface ServerDialect extends Dialect {
  readonly name: 'postgres' | 'mysql';
  readonly types: ColumnTypes;
}

export interface ColumnTypes {
  /** Numbers the rows, and is never used twice. */
  readonly id: string;
  readonly integer: string;
  readonly real: string;
  readonly text: string;
  /** `queue/` and 512 characters, which an index can hold. Compared byte by byte. */
  readonly name: string;
  /** A text of up to 64 characters. */
  readonly word: string;
  /** A text that is JSON, where the server can tell of all that is. */
  readonly json: string;
  readonly blob: string;
}

/** {@link Dialect.upsert} of SQLite and PostgreSQL. */
const upsertByConflict: Dialect['upsert'] = (insert, key, assignments) => {
  const assigned = assignments.map(([column, value]) => `${column} = ${value.replaceAll('new.', 'excluded.')}`);
  const action = assigned.length === 0 ? 'do nothing' : `do update set ${assigned.join(', ')}`;
  return `${insert} on conflict (${key.join(', ')}) ${action}`;
};

const isInJson = (expression: string): string => `${expression} in (select value from json_each(?))`;

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  isIn: isInJson,
  fits: (expression, globs) => {
    if (globs.includes('*')) return fitsAny;
    const areNames = globs.every((glob) => !/[*?[]/.test(glob));
    const isOne = `exists (select 1 from json_each(?) where ${expression} glob value)`;
    return { text: areNames ? isInJson(expression) : isOne, values: [globs] };
  },
  handlerOf: (name) => `substr(${name}, 1, instr(${name} || '?', '?') - 1)`,
  workerOf: (token) =>
    `case when ${token} glob '[0-9]*' and instr(${token}, '.') > 0 then cast(${token} as integer) end`,
  integer: (expression) => `cast(${expression} as integer)`,
  greatest: (one, other) => `max(${one}, ${other})`,
  least: (one, other) => `min(${one}, ${other})`,
  last: (text, characters) => `substr(${text}, -${characters})`,
  hex: (bytes) => `hex(${bytes})`,
  // One transaction writes at a time: nobody else has locked a row.
  forUpdate: '',
  forShare: '',
  skipLocked: '',
  byIndex: (table, { sqlite }) => (sqlite === undefined ? table : `${table} indexed by ${sqlite}`),
  join: 'cross join',
  nowMs: `cast((julianday('now') - 2440587.5) * 86400000 as integer)`,
  upsert: upsertByConflict,
};

const isInPostgres = (expression: string): string => `${expression} = any(?)`;

const regExpPostgres: RegExpDialect = {
  matches: (expression) => `${expression} ~ ?`,
  character: (code) => `\\U${code.toString(16).padStart(8, '0')}`,
  // Its automaton takes no longer for many of them.
  upTo: (found) => `.*${found}`,
  end: '$',
};

const ofServers = {
  greatest: (one, other) => `greatest(${one}, ${other})`,
  least: (one, other) => `least(${one}, ${other})`,
  last: (text, characters) => `right(${text}, ${characters})`,
  forUpdate: 'for update',
  skipLocked: 'for update skip locked',
  join: 'join',
} as const satisfies Partial<Dialect>;

export const postgresDialect: ServerDialect = {
  name: 'postgres',
  types: {
    id: 'bigint generated by default as identity primary key',
    integer: 'bigint',
    real: 'double precision',
    // Sorted by its bytes, as SQLite does.
    text: 'text collate "C"',
    name: 'text collate "C"',
    word: 'text collate "C"',
    json: 'json_text',
    blob: 'bytea',
  },
  isIn: isInPostgres,
  fits: (expression, globs) => fitsByPatterns({ isIn: isInPostgres, regExp: regExpPostgres }, expression, globs),
  handlerOf: (name) => `split_part(${name}, '?', 1)`,
  hex: (bytes) => `encode(${bytes}, 'hex')`,
  workerOf: (token) => `cast(substring(${token} from '^([0-9]{1,16})[.]') as bigint)`,
  integer: (expression) => `cast(${expression} as bigint)`,
  ...ofServers,
  forShare: 'for share',
  byIndex: (table) => table,
  nowMs: 'cast(extract(epoch from clock_timestamp()) * 1000 as bigint)',
  upsert: upsertByConflict,
};

const isInMysql = (expression: string): string => `${expression} in (?)`;

const regExpMysql: RegExpDialect = {
  matches: (expression) => `${expression} regexp ?`,
  character: (code) => `\\x{${code.toString(16)}}`,
  upTo: (found) => `(?>.*?${found})`,
  end: String.raw`\z`,
};

/** With the modes that {@link connect} sets: `||` joins texts, and double quotes are those of names. */
export const mysqlDialect: ServerDialect = {
  name: 'mysql',
  types: {
    id: 'bigint not null auto_increment primary key',
    integer: 'bigint',
    real: 'double',
    text: 'longtext',
    name: 'varchar(520)',
    word: 'varchar(64)',
    // It reads JSON of 32 or 100 levels, but others are data, too.
    json: 'longtext',
    blob: 'longblob',
  },
  isIn: isInMysql,
  fits: (expression, globs) => fitsByPatterns({ isIn: isInMysql, regExp: regExpMysql }, expression, globs),
  handlerOf: (name) => `substring_index(${name}, '?', 1)`,
  hex: (bytes) => `hex(${bytes})`,
  workerOf: (token) =>
    `case when ${token} regexp '^[0-9]{1,16}[.]' then cast(substring_index(${token}, '.', 1) as signed) end`,
  integer: (expression) => `cast(${expression} as signed)`,
  ...ofServers,
  forShare: 'lock in share mode',
  byIndex: (table, { mysql }) => (mysql === undefined ? table : `${table} force index (${mysql})`),
  nowMs: 'cast(unix_timestamp(now(3)) * 1000 as signed)',
  upsert: (insert, key, assignments) => {
    const [first = ''] = key;
    const assigned = assignments.map(
      ([column, value]) => `${column} = ${value.replace(/\bnew\.("?\w+"?)/g, 'values($1)')}`,
    );
    return `${insert} on duplicate key update ${assigned.length === 0 ? `${first} = ${first}` : assigned.join(', ')}`;
  },
};

/** An expression for the name of a lock of this database's own; the server takes at most 64 characters. */
export function lockName(purpose: string): string {
  // MySQL 9.6 and newer has no md5() by itself.
  return `left(concat('${purpose} ', sha2(database(), 256)), 64)`;
}

/** `(?, ?, ?)`: as many as there are values; of none, a list that holds nothing. */
export function marks(values: readonly unknown[]): string {
  return values.length === 0 ? '(null)' : `(${values.map(() => '?').join(', ')})`;
}

/** `(?, ?), (?, ?)`: as many rows of as many columns. */
export function rowMarks(columns: number, rows: number): string {
  const row = `(${Array(columns).fill('?').join(', ')})`;
  return Array(rows).fill(row).join(', ');
}

/** Conditions that columns have these values, nulls too: so that an index serves. Those left out may have any. */
export function matching(values: Readonly<Record<string, unknown>>): Conditions {
  const wanted = Object.entries(values).filter(([, value]) => value !== undefined);
  const texts = wanted.map(([column, value]) => (value === null ? `${column} is null` : `${column} = ?`));
  return { where: texts.join(' and ') || '1 = 1', values: wanted.flatMap(([, value]) => value ?? []) };
}

interface Conditions {
  readonly where: string;
  readonly values: readonly unknown[];
}

/** All tiers that were ever called, perhaps with a null: one step into an index for each. */
export function withTiers({ name }: Dialect): string {
  // MySQL steps by itself; PostgreSQL would read all of the index.
  if (name === 'mysql') return 'with tiers (tier) as (select distinct tier from workers)';
  return `with recursive tiers (tier) as (
    select min(tier) from workers
    union all
    select (select min(workers.tier) from workers where workers.tier > tiers.tier) from tiers
    where tiers.tier is not null)`;
}
