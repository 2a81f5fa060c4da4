import { AsyncLocalStorage } from 'node:async_hooks';

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
