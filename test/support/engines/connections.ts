import { createSyncFn, type Syncify } from 'synckit';
import type { Asked, AskServer } from './connections-worker.ts';

export interface Connection {
  readonly isNew: boolean;
  ask(sql: string, values?: readonly unknown[]): Asked;
  /** Whoever wants one for the same gets this one. */
  giveBack(): void;
  close(): void;
}

interface Known {
  readonly id: number;
  readonly url: string;
  readonly purpose: string;
  isFree: boolean;
}

/** Connections to servers whose answers are waited for while the process does nothing else. */
export class Connections {
  #ask: Syncify<AskServer> | null = null;
  #known: readonly Known[] = [];
  #count = 0;

  take(url: string, purpose: string): Connection {
    const free = this.#known.find((one) => one.isFree && one.url === url && one.purpose === purpose);
    const mine = free ?? this.#add(url, purpose);
    mine.isFree = false;
    return {
      isNew: free === undefined,
      ask: (sql, values = []) => this.#askServer(mine, sql, values),
      giveBack: () => {
        mine.isFree = true;
      },
      close: () => this.#close(mine),
    };
  }

  closeAll(isOne: (url: string) => boolean): void {
    for (const one of this.#known.filter(({ url }) => isOne(url))) this.#close(one);
  }

  #add(url: string, purpose: string): Known {
    this.#count += 1;
    const added = { id: this.#count, url, purpose, isFree: false };
    this.#known = [...this.#known, added];
    return added;
  }

  #close(one: Known): void {
    this.#known = this.#known.filter((other) => other !== one);
    this.#askServer(one, null, []);
  }

  #askServer({ id, url }: Known, sql: string | null, values: readonly unknown[]): Asked {
    this.#ask ??= createSyncFn<AskServer>(new URL('connections-worker.ts', import.meta.url), { timeout: 50_000 });
    return this.#ask({ connection: id, url, sql, values });
  }
}
