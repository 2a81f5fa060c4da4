import { join } from 'node:path';
import type Sqlite from 'better-sqlite3';
import { importPeer } from './from-peers.ts';
import { dataOf, instantMs, pause, readTask, tell, timed } from './tell.ts';

interface Worker {
  start(): Promise<void>;
  stop(): Promise<void>;
}

interface PlainJob {
  better(database: Sqlite.Database): object;
  defineQueue(options: object): {
    add(type: string, data: unknown): { id: number };
    addMany(type: string, data: readonly unknown[]): { ids: number[] };
    close(): void;
  };
  defineWorker(
    type: string,
    run: (job: { readonly data: string }) => Promise<void>,
    options: object,
  ): Worker;
}

const { better, defineQueue, defineWorker } = await importPeer<PlainJob>('plainjob');
const { default: Database } = await importPeer<{ default: typeof Sqlite }>('better-sqlite3');
const { verb, folder, count } = readTask();
const silent = { error() {}, warn() {}, info() {}, debug() {} };
const database = new Database(join(folder, 'plainjob.db'));
const queue = defineQueue({ connection: better(database), logger: silent });
// It sets NORMAL itself, with which a power loss takes what was acknowledged.
database.pragma('synchronous = full');

const data = () => Array.from({ length: count }, (_, index) => dataOf(index));

async function add(): Promise<void> {
  for (const one of data()) queue.add('no-op', one);
}

async function workOff(expected: number, run: (text: string) => void): Promise<void> {
  let done = 0;
  const worker = defineWorker('no-op', async (job) => run(job.data), {
    queue,
    logger: silent,
    onCompleted: () => {
      done += 1;
      if (done === expected) void worker.stop();
    },
  });
  await worker.start();
}

/** Adder and worker in two processes, as it is set by default. */
async function beWoken(): Promise<readonly number[]> {
  const latencies: number[] = [];
  await workOff(count, (text) => {
    latencies.push(instantMs() - (JSON.parse(text) as { readonly at: number }).at);
  });
  return latencies;
}

async function addSlowly(): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await pause();
    queue.add('no-op', { at: instantMs() });
  }
}

const verbs: Readonly<Record<string, () => Promise<unknown>>> = {
  add,
  bulk: async () => queue.addMany('no-op', data()),
  work: () => workOff(count, (text) => JSON.parse(text)),
  'add-slowly': addSlowly,
};
if (verb === 'work') queue.addMany('no-op', data());
if (verb === 'be-woken') tell({ ms: 0, latenciesMs: await beWoken() });
else {
  const ms = await timed(async () => verbs[verb]?.());
  const settings = `journal ${database.pragma('journal_mode', { simple: true })}, synchronous ${database.pragma('synchronous', { simple: true })}`;
  tell({ ms, settings });
}
queue.close();
