import type { Queue } from './queue/api.ts';
import { QueueError } from './queue/errors.ts';
import type { OpenQueueOptions } from './queue/queue.ts';

export {
  defineHandler,
  type Handler,
  type HandlerChild,
  type HandlerChildren,
  type HandlerContext,
  type JobContext,
  type RetryRequest,
} from './child/contexts.ts';
export type { Log } from './child/counts.ts';
export type {
  AddedJob,
  BuryOptions,
  ChildJob,
  ClaimedJob,
  ClaimOptions,
  DuplicatePolicy,
  EndedChildren,
  FailOptions,
  FinishOptions,
  Job,
  JobCount,
  JobOptions,
  JobRef,
  JobTotals,
  JsonValue,
  ListedJob,
  ListOptions,
  NewJob,
  PauseOptions,
  Queue,
  RequeueOptions,
  RetryOptions,
  UpdateOptions,
  When,
} from './queue/api.ts';
export { QueueError, type QueueErrorCode } from './queue/errors.ts';
export type { OpenQueueOptions } from './queue/queue.ts';
export type { RetentionInput, ScriptOptionsInput, SettingsInput, TierSettingsInput } from './settings/settings.ts';
export { defineConfig } from './settings/settings.ts';
export { type StoreFailureKind, StoreUnavailable } from './store/failures.ts';
export type { JobCounters } from './store/statements/list-jobs.ts';
export type { ChildFailurePolicy, JobState, MissedPolicy } from './store/words.ts';

/**
 * Opens the job queue of a root, and creates its log if there is none. Several calls may run at the same
 * time. Close it in the end: {@link Queue.close}.
 *
 * @example
 * const queue = await openQueue();
 * await queue.add('mail/welcome', { to: 'a@example.org' }, { uniqueKey: 'welcome:7' });
 * await queue.close();
 *
 * @throws {QueueError} `invalid`, if there is no root, its settings are wrong, others could read or write its
 *   log, Node is too old, or the packages are Yarn's PnP
 * @throws {StoreUnavailable} if the log cannot be opened
 */
export async function openQueue(options: OpenQueueOptions = {}): Promise<Queue> {
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (major < 22 || (major === 22 && minor < 18)) {
    throw new QueueError('invalid', `openQueue needs Node 22.18 or newer, and this is ${node} (${process.execPath}).`);
  }
  if (process.versions.pnp !== undefined) {
    const cure = 'write `nodeLinker: node-modules` into .yarnrc.yml and run `yarn install`.';
    throw new QueueError('invalid', `openQueue: Yarn's Plug'n'Play (PnP) is not supported: ${cure}`);
  }
  // Not before it is needed: an older Node could not even load it, and a settings file that imports the package for
  // its types pays for no database.
  const { buildQueue } = await import('./queue/queue.ts');
  return await buildQueue(options);
}
