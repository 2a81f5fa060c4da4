import { type Dialect, upsertByConflict } from '../shared/sql/dialect.ts';

const isIn = (expression: string): string => `${expression} in (select value from json_each(?))`;

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  isIn,
  fits: (expression, globs) => {
    const areNames = globs.every((glob) => !/[*?[]/.test(glob));
    const isOne = `exists (select 1 from json_each(?) where ${expression} glob value)`;
    return { text: areNames ? isIn(expression) : isOne, values: [globs] };
  },
  handlerOf: (name) => `substr(${name}, 1, instr(${name} || '?', '?') - 1)`,
  workerOf: (token) =>
    `case when ${token} glob '[0-9]*' and instr(${token}, '.') > 0 then cast(${token} as integer) end`,
  integer: (expression) => `cast(${expression} as integer)`,
  noReal: 'null',
  greatest: (one, other) => `max(${one}, ${other})`,
  least: (one, other) => `min(${one}, ${other})`,
  last: (text, characters) => `substr(${text}, -${characters})`,
  // One transaction writes at a time: nobody else has locked a row.
  forUpdate: '',
  forShare: '',
  skipLocked: '',
  byIndex: (table, { sqlite }) => (sqlite === undefined ? table : `${table} indexed by ${sqlite}`),
  join: 'cross join',
  nowMs: `cast((julianday('now') - 2440587.5) * 86400000 as integer)`,
  upsert: upsertByConflict,
};
