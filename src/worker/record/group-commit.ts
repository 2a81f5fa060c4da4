import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database, Store } from '../../store/store.ts';

/** So long an end may be in the log before the next write takes it to the disk. */
const LONGEST_UNSYNCED_MS = 20;

/**
 * Many small transactions share one wait for the disk. What is in the log survives the runner's own death
 * at once, and a power loss once it is synced; nobody is told of it before.
 */
export interface GroupCommit {
  /** In a transaction of its own. */
  write<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** The same for what nobody is told of, as a claim: it waits for no disk, however long ago it was synced. */
  writeAhead<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** To be called when something that was written has to be told of, once it is durable. */
  onDurable(tell: () => void): void;
  /** Has all that was written on the disk. */
  sync(): Promise<void>;
}

interface Untold {
  /** By which changes of the log what is told of was in it. */
  readonly changes: number;
  readonly tell: () => void;
}

export function createGroupCommit(store: Store, workerId: number): GroupCommit {
  let changes = 0;
  let durableChanges = 0;
  let syncedAt = performance.now();
  let untold: readonly Untold[] = [];
  let timer: NodeJS.Timeout | undefined;

  const isDurable = (): boolean => changes <= durableChanges;
  const noteSync = (upTo: number): void => {
    clearTimeout(timer);
    timer = undefined;
    syncedAt = performance.now();
    durableChanges = Math.max(durableChanges, upTo);
    const told = untold.filter((each) => each.changes <= durableChanges);
    untold = untold.filter((each) => each.changes > durableChanges);
    for (const { tell } of told) tell();
  };
  const writeDurably = async <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const { result, upTo } = await store.db.transaction().execute(async (db) => {
      const before = await countChanges(db);
      const result = await work(db);
      changes = await countChanges(db);
      // A commit of nothing waits for no disk. One that does takes with it all that came before.
      if (!isDurable() && changes === before) await touchWorker(db, workerId);
      return { result, upTo: changes };
    });
    noteSync(upTo);
    return result;
  };
  const writeSoonDurable = async <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const result = await store.withoutSync((held) =>
      held.transaction().execute(async (db) => {
        const result = await work(db);
        changes = await countChanges(db);
        return result;
      }),
    );
    // The next write may be long in coming: its job has only just begun.
    if (!isDurable())
      timer = timer?.refresh() ?? setTimeout(syncLater, LONGEST_UNSYNCED_MS).unref();
    return result;
  };
  const sync = async (): Promise<void> => {
    if (!isDurable()) await writeDurably(async () => {});
  };
  // What is the matter with the log, the next write will meet, too.
  const syncLater = (): void => void sync().catch(() => {});
  return {
    write: (work) => {
      const isLong = performance.now() - syncedAt >= LONGEST_UNSYNCED_MS;
      return isLong ? writeDurably(work) : writeSoonDurable(work);
    },
    writeAhead: writeSoonDurable,
    onDurable: (tell) => {
      if (isDurable()) tell();
      else untold = [...untold, { changes, tell }];
    },
    sync,
  };
}

/** Of this connection, since it was opened. */
async function countChanges(db: Database): Promise<number> {
  const [row] = await queryRaw<{ changes: number }>(db, 'select total_changes() as changes');
  return row?.changes ?? 0;
}

async function touchWorker(db: Database, workerId: number): Promise<void> {
  await db.updateTable('workers').set({ kind: 'queue' }).where('id', '=', workerId).execute();
}
