import type { Store } from '../store.ts';

/** The present or future place of a log: one file, or a database on a server. Its SQL has `?` for values. */
export interface LogPlace {
  readonly engine: Store['engine'];
  /** For people; without secrets. */
  readonly name: string;
  readonly state: PlaceState;
  all<Row>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  run(text: string, values?: readonly unknown[]): Promise<void>;
  transaction<T>(work: () => Promise<T>): Promise<T>;
  /** How many rows one statement may best insert. */
  readonly rowsPerInsert: number;
  /** A number as text. JavaScript's numbers do not hold all whole ones. */
  digits(column: string): string;
  /** The driver for MySQL reads the last digit of a fraction wrong, now and then. */
  readonly readsReals: 'exactly' | 'as text';
  /** How many bytes a text or a blob has. */
  bytes(column: string): string;
  readColumns(): Promise<FoundColumns>;
  /** The highest number that a row of the table ever had. */
  readLastNumber(table: string): Promise<number>;
  setLastNumber(table: string, last: number): Promise<void>;
  close(): Promise<void>;
}

/** By table, by column. */
export type FoundColumns = ReadonlyMap<string, ReadonlyMap<string, FoundColumn>>;

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
