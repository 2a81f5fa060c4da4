import { checkPlace } from '../config/check-place.ts';
import { loadSettings } from '../config/load-settings.ts';
import { findRoot } from '../config/root.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../config/state-folder.ts';
import { UsageError } from '../config/usage-error.ts';
import { toStoreUnavailable } from '../store/describe-store-failure.ts';
import { createQueue } from './create-queue.ts';
import { checkOptions } from './known-options.ts';
import type { Queue } from './queue.ts';
import { QueueError } from './queue-error.ts';
import { openQueueLog } from './queue-log.ts';
import type { JsonReader } from './stored-json.ts';

/** Where the queue is; what is left out is found as the `runner` command finds it. */
export interface OpenQueueOptions {
  /** The folder that holds `jobs/`. Default: `RUNNER_ROOT`, else the nearest one upward from `cwd`. */
  readonly root?: string;
  /** Default: the current folder. */
  readonly cwd?: string;
  /** Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The clock, in UTC epoch milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
}

/**
 * Finds the place of a queue, opens its log, and puts the verbs over it.
 *
 * @param read how data and results of its jobs are read
 */
export async function buildQueue(
  options: OpenQueueOptions,
  read: JsonReader = JSON.parse,
): Promise<Queue> {
  const { env = process.env, now = Date.now } = checkOptions('openQueue', options);
  const { root, settings } = await findPlace(options, env);
  const state = stateFolderOf(root);
  makeFolder(state);
  const log = await openQueueLog(state, now);
  return createQueue({ log, state, settings: settings.queue, now, read });
}

async function findPlace(
  { root: option, cwd = process.cwd() }: OpenQueueOptions,
  env: NodeJS.ProcessEnv,
) {
  try {
    const root = findRoot({ option, optionName: 'root', variable: env.RUNNER_ROOT, cwd });
    const settings = await loadSettings(root, env);
    checkPlace(root, stateFolderOf(root), settings);
    return { root, settings };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new QueueError('invalid', error.message, { cause: error });
  }
}

function makeFolder(state: StateFolder): void {
  try {
    createStateFolder(state);
  } catch (error) {
    throw toStoreUnavailable(error, state);
  }
}
