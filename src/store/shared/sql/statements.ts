import { AsyncLocalStorage } from 'node:async_hooks';
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

/**
 * Until the transaction ends, nobody else has this lock; with `shared`, nobody has it alone. To be asked for before
 * what it protects is read.
 */
export async function lock(db: Statements, name: string, how: 'alone' | 'shared' = 'alone'): Promise<void> {
  const { forUpdate, forShare, name: engine, upsert } = db.dialect;
  // One transaction writes at a time.
  if (engine === 'sqlite') return;
  const row = `select name from mutexes where name = ? ${how === 'alone' ? forUpdate : forShare}`;
  if ((await db.first(row, [name])) !== undefined) return;
  // It has never been asked for: whoever adds the row, or waits for who does, has it.
  await db.run(upsert('insert into mutexes (name) values (?)', ['name'], [['name', 'new.name']]), [name]);
}

interface Turn {
  isOver: boolean;
}

/** Lets one after the other in. */
export class Turns {
  #last: Promise<void> | null = null;
  readonly #current = new AsyncLocalStorage<Turn>();

  /** @throws where the caller is in a turn already, for whose end it would wait */
  async enter(): Promise<() => void> {
    if (this.#current.getStore()?.isOver === false) {
      throw new Error('A transaction asked its store instead of its session: it would wait for its own end.');
    }
    const before = this.#last;
    let open = (): void => {};
    const mine = new Promise<void>((resolve) => {
      open = resolve;
    });
    this.#last = mine;
    if (before !== null) await before;
    return () => {
      if (this.#last === mine) this.#last = null;
      open();
    };
  }

  /** Does work in the turn that was entered: what it calls may enter no other before its end. */
  async within<T>(work: () => Promise<T>): Promise<T> {
    const turn: Turn = { isOver: false };
    try {
      return await this.#current.run(turn, work);
    } finally {
      // Work that was begun in the turn but not awaited waits for a turn like all other work.
      turn.isOver = true;
    }
  }
}
