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
  /** A fraction that is not known. */
  readonly noReal: string;
  /** The greater of two values that are known. */
  greatest(one: string, other: string): string;
  /** The smaller of two values that are known. */
  least(one: string, other: string): string;
  /** The last characters of a text. */
  last(text: string, characters: number): string;
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

/** {@link Dialect.upsert} of SQLite and PostgreSQL. */
export const upsertByConflict: Dialect['upsert'] = (insert, key, assignments) => {
  const assigned = assignments.map(([column, value]) => `${column} = ${value.replaceAll('new.', 'excluded.')}`);
  const action = assigned.length === 0 ? 'do nothing' : `do update set ${assigned.join(', ')}`;
  return `${insert} on conflict (${key.join(', ')}) ${action}`;
};

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
