import type { Dialect } from '../shared/sql/dialect.ts';

/** What else differs between servers. */
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
