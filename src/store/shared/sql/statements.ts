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

/** The same statements outside of a transaction: each of them waits for its turn. */
export function oneByOne<D extends Dialect>(
  db: Statements & { readonly dialect: D },
  inTurn: <T>(work: () => Promise<T>) => Promise<T>,
): Statements & { readonly dialect: D } {
  return {
    dialect: db.dialect,
    inTransaction: false,
    get rollbacks() {
      return db.rollbacks;
    },
    get turn() {
      return db.turn;
    },
    all: <Row>(...asked: Parameters<Statements['all']>) => inTurn(() => db.all<Row>(...asked)),
    first: <Row>(...asked: Parameters<Statements['first']>) => inTurn(() => db.first<Row>(...asked)),
    run: (...asked) => inTurn(() => db.run(...asked)),
    insert: (...asked) => inTurn(() => db.insert(...asked)),
    noteWork: () => db.noteWork(),
  };
}

/** A notice to waiting sessions: there may be work, or something has changed. */
export type Announcement = 'work' | 'change' | 'none';

/** A row that may be there only once is there, though no index refuses the second one. */
export class RowTaken extends Error {
  readonly code = 'ERR_ROW_TAKEN';
}
