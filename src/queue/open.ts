import type { Queue } from './api.ts';
import type { OpenQueueOptions } from './queue.ts';

/**
 * Opens the job queue of a root; its log is made where there is none yet. Calls may be under way at the
 * same time. To be closed in the end: {@link Queue.close}.
 *
 * @example
 * const queue = await openQueue();
 * await queue.add('mail/welcome', { to: 'a@example.org' }, { uniqueKey: 'welcome:7' });
 * await queue.close();
 *
 * @throws {QueueError} `invalid`, if there is no root, its settings are wrong, or others could read or
 *   write its log
 * @throws {StoreUnavailable} if the log cannot be opened
 */
export async function openQueue(options: OpenQueueOptions = {}): Promise<Queue> {
  // Not before it is needed: a settings file that imports the package for its types pays for no database.
  const { buildQueue } = await import('./queue.ts');
  return await buildQueue(options);
}
