import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { allData, importPeer, reportTimed, task } from './child.ts';

interface BullMq {
  readonly Queue: new (
    name: string,
    options: object,
  ) => {
    add(name: string, data: unknown): Promise<unknown>;
    addBulk(jobs: readonly object[]): Promise<unknown>;
    close(): Promise<void>;
  };
  readonly Worker: new (
    name: string,
    processor: string,
    options: object,
  ) => {
    on(event: string, listener: (job: unknown, error: Error) => void): void;
    close(): Promise<void>;
  };
}

interface IoRedis {
  readonly Redis: new (
    port: number,
  ) => {
    config(verb: 'GET', name: string): Promise<readonly string[]>;
    disconnect(): void;
  };
}

const { Queue, Worker } = await importPeer<BullMq>('bullmq');
const connection = { host: '127.0.0.1', port: Number(process.env.BENCH_REDIS_PORT) };
const name = basename(task.folder);
const queue = new Queue(name, { connection });

/** As the server itself says. */
async function describeRedis(): Promise<string> {
  const { Redis } = await importPeer<IoRedis>('ioredis');
  const client = new Redis(connection.port);
  const settings = [await client.config('GET', 'appendonly'), await client.config('GET', 'appendfsync')];
  client.disconnect();
  return `Redis ${settings.map((pair) => pair.join(' ')).join(', ')}`;
}

async function add(): Promise<void> {
  for (const data of allData()) await queue.add('no-op', data);
}

const bulk = () => queue.addBulk(allData().map((data) => ({ name: 'no-op', data })));

/** Sandboxed: it hands each job to a child process, one at a time. */
async function work(): Promise<void> {
  const processor = join(task.folder, 'processor.cjs');
  writeFileSync(processor, 'module.exports = async () => {};\n');
  const worker = new Worker(name, processor, { connection, concurrency: 1 });
  await new Promise<void>((resolve, reject) => {
    let done = 0;
    worker.on('completed', () => {
      done += 1;
      if (done === task.count) resolve();
    });
    worker.on('failed', (_job, error) => reject(error));
  });
  await worker.close();
}

if (task.verb === 'work') await bulk();
await reportTimed({ add, bulk, work }, await describeRedis());
await queue.close();
