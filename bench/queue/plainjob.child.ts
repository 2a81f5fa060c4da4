import { join } from 'node:path';
import type Sqlite from 'better-sqlite3';
import { allData, describePragmas, importPeer, reportTimed, task } from './child.ts';

interface PlainJob {
  better(database: Sqlite.Database): object;
  defineQueue(options: object): {
    add(type: string, data: unknown): unknown;
    addMany(type: string, data: readonly unknown[]): unknown;
    close(): void;
  };
  defineWorker(
    type: string,
    run: (job: { readonly data: string }) => Promise<void>,
    options: object,
  ): { start(): Promise<void>; stop(): Promise<void> };
}

const { better, defineQueue, defineWorker } = await importPeer<PlainJob>('plainjob');
const { default: Database } = await importPeer<{ default: typeof Sqlite }>('better-sqlite3');
const logger = { error() {}, warn() {}, info() {}, debug() {} };
const database = new Database(join(task.folder, 'plainjob.db'));
const queue = defineQueue({ connection: better(database), logger });
// It sets NORMAL itself, with which a power loss takes what was acknowledged.
database.pragma('synchronous = full');

const add = () => {
  for (const data of allData()) queue.add('no-op', data);
};

const bulk = () => queue.addMany('no-op', allData());

async function work(): Promise<void> {
  let done = 0;
  const worker = defineWorker('no-op', async ({ data }) => JSON.parse(data), {
    queue,
    logger,
    onCompleted: () => {
      done += 1;
      if (done === task.count) void worker.stop();
    },
  });
  await worker.start();
}

if (task.verb === 'work') bulk();
await reportTimed({ add, bulk, work }, describePragmas(database));
queue.close();
