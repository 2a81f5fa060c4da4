import { join } from 'node:path';
import type Sqlite from 'better-sqlite3';
import { importPeer } from './from-peers.ts';
import { dataOf, readTask, tell, timed } from './tell.ts';

interface Drizzle {
  readonly session: { readonly client: Sqlite.Database };
  transaction: (work: (db: Drizzle) => Promise<unknown>) => Promise<unknown>;
}

interface Liteque {
  buildDBClient(path: string, options: object): Drizzle;
  SqliteQueue: new (
    name: string,
    db: Drizzle,
    options: object,
  ) => { enqueue(payload: unknown): Promise<unknown> };
  Runner: new (
    queue: object,
    functions: object,
    options: object,
  ) => { runUntilEmpty(): Promise<void> };
}

const { buildDBClient, SqliteQueue, Runner } = await importPeer<Liteque>('liteque');
const { verb, folder, count } = readTask();
const db = buildDBClient(join(folder, 'liteque.db'), { runMigrations: true });
const { client } = db.session;
// It sets NORMAL itself.
client.pragma('synchronous = full');
// It hands drizzle's transactions an async function, which better-sqlite3 refuses: nothing is ever taken.
db.transaction = async (work) => {
  client.exec('begin immediate');
  try {
    const result = await work(db);
    client.exec('commit');
    return result;
  } catch (error) {
    client.exec('rollback');
    throw error;
  }
};

const queue = new SqliteQueue('no-op', db, {
  defaultJobArgs: { numRetries: 0 },
  keepFailedJobs: true,
});

async function add(): Promise<void> {
  for (let index = 0; index < count; index += 1) await queue.enqueue(dataOf(index));
}

async function workOff(): Promise<void> {
  const options = { pollIntervalMs: 10, timeoutSecs: 60, concurrency: 1 };
  await new Runner(queue, { run: async () => {} }, options).runUntilEmpty();
}

if (verb === 'work') {
  client.pragma('synchronous = off');
  await add();
  client.pragma('synchronous = full');
}
const ms = await timed(verb === 'work' ? workOff : add);
tell({
  ms,
  settings: `journal ${client.pragma('journal_mode', { simple: true })}, synchronous ${client.pragma('synchronous', { simple: true })}`,
});
// Each of its jobs leaves a timer behind.
process.exit();
