import { onTestFinished } from 'vitest';
import type { Script } from '../../src/discovery/script.ts';
import { openQueue } from '../../src/index.ts';
import { newJobOf } from '../../src/queue/add/scripts.ts';
import type { ClaimedJob, JobOptions, JsonValue, Queue } from '../../src/queue/api.ts';
import type { Store, StoreSession } from '../../src/store/store.ts';
import type { ActivityEvent } from '../../src/store/words.ts';
import type { LoggedJob, LoggedRun } from './engines/engine.ts';
import { queryLog, watchLog } from './log.ts';
import { makeTemporaryRoot } from './root.ts';
import { openStoreOf } from './store.ts';

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;

/** A queue whose clock stands still until a test moves it, and a look behind it. */
export interface TestQueue {
  readonly queue: Queue;
  readonly root: string;
  /** With a connection of its own. */
  readonly store: Store;
  /** UTC epoch milliseconds. */
  readonly clock: { at: number };
  /** A job's row. */
  row(id: number): LoggedJob;
  runs(id: number): LoggedRun[];
  /** What happened to a job, in its order. */
  events(id: number): ActivityEvent[];
  /** All that is in the log, as text: whether anything has changed. */
  dump(): string;
  /** Without what a late end may still add to its run. */
  dumpWithoutOutput(): string;
  /** Adds a job and takes it. */
  take(name?: string, options?: JobOptions, data?: JsonValue): Promise<ClaimedJob>;
}

export const START = Date.UTC(2026, 2, 10, 13);

export async function openTestQueue(settings: object = {}): Promise<TestQueue> {
  const root = makeTemporaryRoot({ 'runner.config.json': JSON.stringify({ queue: settings }) });
  const clock = { at: START };
  const queue = await openQueue({ root, now: () => clock.at });
  onTestFinished(() => queue.close());
  const store = await openStoreOf(root);
  watchLog(root);
  const all = <Row>(text: string, ...values: unknown[]) => queryLog<Row>(root, text, ...values);
  const dump = (): string =>
    ['jobs', 'runs', 'events', 'pauses'].map((table) => JSON.stringify(all(`select * from ${table}`))).join('\n');
  return {
    queue,
    root,
    store,
    clock,
    row: (id) => all<LoggedJob>('select * from jobs where id = ?', id)[0] as LoggedJob,
    runs: (id) => all<LoggedRun>('select * from runs where job_id = ? order by id', id),
    events: (id) =>
      all<{ event: ActivityEvent }>('select event from activity where job_id = ? order by id', id).map(
        ({ event }) => event,
      ),
    dump,
    dumpWithoutOutput: () => dump().replace(/"output[^}]*/g, ''),
    take: async (name = 'mail/welcome', options = {}, data = {}) => {
      const id = await queue.add(name, data, options);
      const claimed = await queue.claim(name);
      if (claimed?.id !== id) throw new Error(`${claimed?.id} was taken instead of ${id}`);
      return claimed;
    },
  };
}

interface Wanted {
  readonly script: Script;
  readonly scheduledFor: number | null;
}

/** Queues scripts as a pass does, whose scripts have no open jobs. Call it in a transaction. */
export async function enqueueScripts({ scriptJobs }: StoreSession, wanted: readonly Wanted[], at: number) {
  const ids = await scriptJobs.enqueue(wanted.map((each) => newJobOf(each, at)));
  return wanted.map((each, index) => ({ ...each, id: ids[index] as number }));
}
