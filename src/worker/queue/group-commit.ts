import type { Database, Store } from '../../store/open-store.ts';

/** So long an end may be in the log before it is on the disk; nobody is told of it before. */
const LONGEST_UNSYNCED_MS = 20;

/**
 * Many small transactions share one wait for the disk. What is in the log survives the runner's own death
 * at once, and a power loss once it is synced; `onDurable` is called then.
 */
export interface GroupCommit {
  /** In a transaction of its own. */
  write<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** To be called when something that was written has to be told of, once it is durable. */
  onDurable(tell: () => void): void;
  /** Has all that was written on the disk. */
  sync(): Promise<void>;
}

export function createGroupCommit(store: Store, workerId: number): GroupCommit {
  let syncedAt = performance.now();
  let isSynced = true;
  let untold: (() => void)[] = [];
  const tellAll = (written: readonly (() => void)[]): void => {
    untold = untold.filter((tell) => !written.includes(tell));
    for (const tell of written) tell();
  };
  const writeDurably = async <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    // What is told of later is written later, and not durable by this.
    const written = untold;
    const result = await store.db.transaction().execute(work);
    syncedAt = performance.now();
    isSynced = true;
    tellAll(written);
    return result;
  };
  return {
    write: async (work) => {
      if (performance.now() - syncedAt >= LONGEST_UNSYNCED_MS) return await writeDurably(work);
      const result = await store.withoutSync((db) => db.transaction().execute(work));
      isSynced = false;
      return result;
    },
    onDurable: (tell) => {
      if (isSynced) tell();
      else untold.push(tell);
    },
    sync: async () => {
      if (isSynced) return;
      // Any page that is written: a commit that is synced takes with it all that came before.
      await writeDurably((db) => touchWorker(db, workerId));
    },
  };
}

async function touchWorker(db: Database, workerId: number): Promise<void> {
  await db.updateTable('workers').set({ kind: 'queue' }).where('id', '=', workerId).execute();
}
