/** How what differs is written in SQL. All else is written so that both servers understand it. */
export interface Dialect {
  readonly name: 'postgres' | 'mysql';
  readonly types: ColumnTypes;
  /** Equal, two nulls too. */
  same(one: string, other: string): string;
  /** Whether it is among the values of a list, which is one value of the statement: its text stays the same. */
  isIn(expression: string): string;
  readonly regExp: RegExpDialect;
  /** A job's name without parameters. */
  handlerOf(name: string): string;
  /** Number of the worker of the runner whose claim has this token; null: it is somebody else's. */
  workerOf(token: string): string;
  /** The whole number that an expression is. */
  integer(expression: string): string;
  /** Whole milliseconds since 1970, by the server's clock. */
  readonly nowMs: string;
  /**
   * `insert …` with what becomes of a row whose key is taken: each of these columns is assigned; `new.x` stands for
   * the value that was to be inserted. No assignment: the row stays as it is.
   */
  upsert(insert: string, key: readonly string[], assignments: readonly (readonly [string, string])[]): string;
}

/** The differences in regular expressions. */
export interface RegExpDialect {
  /** Whether a text fits one, which is a value of the statement. */
  matches(expression: string): string;
  /** One character, by its number. */
  character(code: number): string;
  /** The shortest text up to the first place where this fits: looked for once, so that no pattern takes long. */
  upTo(found: string): string;
  readonly end: string;
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
