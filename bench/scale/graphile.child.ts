import { EventEmitter } from 'node:events';
import { importPeer, report, task } from './child.ts';

interface Runner {
  stop(): Promise<void>;
}

interface Graphile {
  run(options: object): Promise<Runner>;
  runMigrations(options: object): Promise<void>;
  makeWorkerUtils(options: object): Promise<{
    addJobs(jobs: readonly object[]): Promise<unknown>;
    release(): Promise<unknown>;
  }>;
  readonly Logger: new (factory: unknown) => unknown;
}

const { run, makeWorkerUtils, Logger } = await importPeer<Graphile>('graphile-worker');
const name = 'no-op';
const AT_ONCE = 10_000;
const logger = new Logger(() => () => {});
const connectionString = task.url;

async function fill(): Promise<void> {
  const utils = await makeWorkerUtils({ connectionString, logger, preset });
  for (let done = 0; done < task.jobs; done += AT_ONCE) {
    const count = Math.min(AT_ONCE, task.jobs - done);
    const jobs = Array.from({ length: count }, (_, index) => ({
      identifier: name,
      payload: { to: `user-${done + index}@example.org`, template: 'welcome' },
    }));
    await utils.addJobs(jobs);
  }
  await utils.release();
  report(0);
}

/** Batches: a local queue, and completions that share a statement, as its documentation advises for throughput. */
const preset = {
  worker: {
    ...(task.batch > 1 ? { localQueue: { size: task.batch }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
  },
};

/** So many jobs of one local queue are under way at the same time. */
const CONCURRENCY = 24;

async function work(): Promise<void> {
  let done = 0;
  let finish = (): void => {};
  const all = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const events = new EventEmitter();
  events.on('job:complete', () => {
    done += 1;
    if (done === task.jobs) finish();
  });
  const start = (maxPoolSize: number, concurrency: number): Promise<Runner> => {
    const taskList = { [name]: async () => {} };
    const options = { taskList, concurrency, events, logger, preset, noHandleSignals: true, pollInterval: 100 };
    return run({ ...options, connectionString, maxPoolSize });
  };
  const startMs = performance.now();
  // Each listens with a connection besides those it works with.
  const runners =
    task.batch > 1
      ? await Promise.all(Array.from({ length: task.connections }, () => start(2, CONCURRENCY)))
      : [await start(task.connections + 1, task.connections)];
  await all;
  report(performance.now() - startMs);
  await Promise.all(runners.map((runner) => runner.stop()));
}

if (task.verb === 'fill') await fill();
else await work();
process.exit();
