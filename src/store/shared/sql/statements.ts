import type { Dialect } from './dialect.ts';

/**
 * Statements of one connection to a log, whatever its engine. Their values stand as `?`, a list as one of them; a
 * boolean is 1 or 0.
 */
export interface Statements {
  readonly dialect: Dialect;
  all<Row>(text: string, values?: readonly unknown[], news?: Announcement): Promise<Row[]>;
  first<Row>(text: string, values?: readonly unknown[]): Promise<Row | undefined>;
  /** Returns how many rows it has changed. Others soon get a notice of the change, unless `news` is `none`. */
  run(text: string, values?: readonly unknown[], news?: Announcement): Promise<number>;
  /** Numbers of the rows that it has added, in their order. */
  insert(text: string, values: readonly unknown[], rows?: number): Promise<number[]>;
  /** Notifies others after the commit that there may be work. */
  noteWork(): void;
  /** Grows with each transaction that was undone: values remembered from it are wrong. */
  readonly rollbacks: number;
  /** Grows with each transaction, or statement outside of one: values read before may be old. */
  readonly turn: number;
  /** Whether what is read may be locked until the transaction ends. */
  readonly inTransaction: boolean;
}

/** A notice to waiting sessions: there may be work, or something has changed. */
export type Announcement = 'work' | 'change' | 'none';

/** A row that may be there only once is there, though no index refuses the second one. */
export class RowTaken extends Error {
  readonly code = 'ERR_ROW_TAKEN';
}
