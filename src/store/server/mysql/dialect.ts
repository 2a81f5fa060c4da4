import type { ServerDialect } from '../dialect.ts';
import { fitsByPatterns, type RegExpDialect } from '../globs.ts';

const isIn = (expression: string): string => `${expression} in (?)`;

const regExp: RegExpDialect = {
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
  isIn,
  fits: (expression, globs) => fitsByPatterns({ isIn, regExp }, expression, globs),
  handlerOf: (name) => `substring_index(${name}, '?', 1)`,
  workerOf: (token) =>
    `case when ${token} regexp '^[0-9]{1,16}[.]' then cast(substring_index(${token}, '.', 1) as signed) end`,
  integer: (expression) => `cast(${expression} as signed)`,
  noReal: 'null',
  greatest: (one, other) => `greatest(${one}, ${other})`,
  least: (one, other) => `least(${one}, ${other})`,
  last: (text, characters) => `right(${text}, ${characters})`,
  forUpdate: 'for update',
  forShare: 'lock in share mode',
  skipLocked: 'for update skip locked',
  byIndex: (table, { mysql }) => (mysql === undefined ? table : `${table} force index (${mysql})`),
  join: 'join',
  nowMs: 'cast(unix_timestamp(now(3)) * 1000 as signed)',
  upsert: (insert, key, assignments) => {
    const [first = ''] = key;
    const assigned = assignments.map(
      ([column, value]) => `${column} = ${value.replace(/\bnew\.(\w+)/g, 'values($1)')}`,
    );
    return `${insert} on duplicate key update ${assigned.length === 0 ? `${first} = ${first}` : assigned.join(', ')}`;
  },
};

/** An expression for the name of a lock of this database's own; the server takes at most 64 characters. */
export function lockName(purpose: string): string {
  // MySQL 9.6 and newer has no md5() by itself.
  return `left(concat('${purpose} ', sha2(database(), 256)), 64)`;
}
