import { UsageError } from '../base/errors.ts';
import { findRoot } from '../place/root.ts';
import {
  createStateFolder,
  removeOutput,
  type StateFolder,
  stateFolderOf,
} from '../place/state-folder.ts';
import { checkPlace } from '../settings/access.ts';
import { loadSettings } from '../settings/load.ts';
import type { QueueSettings } from '../settings/settings.ts';
import { toStoreUnavailable } from '../store/describe-failure.ts';
import { addJobs } from './add/add.ts';
import { checkOptions, invalid, readReason, requireDurationMs } from './add/values.ts';
import type { AddedJob, ClaimedJob, ClaimOptions, Job, PauseOptions, Queue } from './api.ts';
import { kickJob, kickJobs, requeueJobs } from './change/revive.ts';
import { touchJob, updateJob } from './change/update.ts';
import { claimForCaller, openQueueLog, type QueueLog } from './claim/outside.ts';
import { QueueError } from './errors.ts';
import { readPatterns } from './patterns.ts';
import { pause, pauseNameOf, resume } from './pauses.ts';
import { type JsonReader, readJob } from './read/jobs.ts';
import { countJobs, listJobs } from './read/list.ts';
import { createArchive, deleteJob } from './settle/archive.ts';
import {
  buryJob,
  cancelJob,
  failRunningJob,
  finishRunningJob,
  retryRunningJob,
} from './settle/by-caller.ts';

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

interface QueueParts {
  readonly log: QueueLog;
  readonly state: StateFolder;
  readonly settings: QueueSettings;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** How data and results are read. */
  readonly read: JsonReader;
}

/** The queue's verbs over an open log. */
function createQueue(parts: QueueParts): Queue {
  return {
    ...addingVerbs(parts),
    ...claimVerbs(parts),
    ...endingVerbs(parts),
    ...changingVerbs(parts),
    ...readingVerbs(parts),
    ...pausingVerbs(parts),
    close: () => parts.log.close(),
  };
}

function addingVerbs({
  log,
  now,
}: QueueParts): Pick<Queue, 'add' | 'addMany' | 'addUnique' | 'addManyUnique'> {
  const addManyUnique: Queue['addManyUnique'] = async (jobs) => {
    const areJobs =
      Array.isArray(jobs) && jobs.every((job) => typeof job === 'object' && job !== null);
    if (!areJobs) throw invalid('What is added', 'a list of jobs', jobs);
    return await log.change((session) => addJobs(session, jobs, now()));
  };
  const addUnique: Queue['addUnique'] = async (name, data, options = {}) => {
    const job = { ...options, name, ...(data !== undefined && { data }) };
    const [added] = await addManyUnique([job]);
    return added as AddedJob;
  };
  return {
    addManyUnique,
    addUnique,
    add: async (name, data, options) => (await addUnique(name, data, options)).id,
    addMany: async (jobs) => (await addManyUnique(jobs)).map(({ id }) => id),
  };
}

function claimVerbs(parts: QueueParts): Pick<Queue, 'claim' | 'claimMany' | 'touch'> {
  const { log, settings, now } = parts;
  const claimMany = async <Data>(
    patterns: string | readonly string[],
    count: number,
    options: ClaimOptions = {},
  ) =>
    (await claimForCaller(
      parts,
      patterns,
      count,
      checkOptions('claim', options),
    )) as ClaimedJob<Data>[];
  return {
    claim: async <Data>(patterns: string | readonly string[] = '*', options: ClaimOptions = {}) =>
      (await claimMany<Data>(patterns, 1, options))[0] ?? null,
    claimMany,
    touch: (job, options = {}) =>
      log.change((session) => {
        const { lease } = checkOptions('touch', options);
        return touchJob(session, job, { at: now(), lease, defaultLeaseMs: settings.leaseMs });
      }),
  };
}

function endingVerbs(
  parts: QueueParts,
): Pick<Queue, 'finish' | 'retry' | 'fail' | 'bury' | 'cancel' | 'delete'> {
  const { log, state, settings, now } = parts;
  const archive = createArchive(settings.archive, (files) => removeOutput(state, files));
  const context = () => ({ at: now(), missedCap: settings.missedCap, archive });
  return {
    finish: (job, options = {}) =>
      log.change((session) =>
        finishRunningJob(session, job, checkOptions('finish', options), context()),
      ),
    retry: (job, options = {}) =>
      log.change((session) =>
        retryRunningJob(session, job, checkEnding('retry', options), context()),
      ),
    fail: (job, options = {}) =>
      log.change((session) =>
        failRunningJob(session, job, checkEnding('fail', options), context()),
      ),
    bury: (job, options = {}) =>
      log.change((session) => buryJob(session, job, checkEnding('bury', options), now())),
    cancel: (id) => log.change((session) => cancelJob(session, id, context())),
    delete: async (job) =>
      removeOutput(state, await log.change((session) => deleteJob(session, job, now()))),
  };
}

function checkEnding<Options extends { readonly reason?: string }>(
  verb: 'retry' | 'fail' | 'bury',
  options: Options,
): Options {
  const { reason, ...rest } = checkOptions(verb, options);
  const said = reason === undefined ? null : readReason(reason);
  return { ...rest, ...(said !== null && { reason: said }) } as Options;
}

function changingVerbs(parts: QueueParts): Pick<Queue, 'kick' | 'kickMany' | 'update' | 'requeue'> {
  const { log, settings, now } = parts;
  const updating = () => ({ at: now(), missedCap: settings.missedCap });
  return {
    kick: (id) => log.change((session) => kickJob(session, id, now())),
    kickMany: (patterns, count) =>
      log.change((session) => kickJobs(session, patterns, count, now())),
    update: (job, options) =>
      log.change((session) => updateJob(session, job, checkOptions('update', options), updating())),
    requeue: (ids, options = {}) =>
      log.change((session) => requeueJobs(session, ids, checkOptions('requeue', options), now())),
  };
}

function readingVerbs({ log, now, read }: QueueParts): Pick<Queue, 'get' | 'list' | 'count'> {
  const get = (id: number) => log.ask((store) => readJob(store, id, read));
  return {
    get: async <Data, Result>(id: number) => (await get(id)) as Job<Data, Result> | null,
    list: (options = {}) =>
      log.ask((store) => listJobs(store, checkOptions('list', options), now(), read)),
    count: (pattern = '*') => log.ask((store) => countJobs(store, pattern, now())),
  };
}

function pausingVerbs({ log, now }: QueueParts): Pick<Queue, 'pause' | 'resume'> {
  return {
    pause: (pattern, options = {}) =>
      log.change((session) =>
        pause(session, readPause(pattern, checkOptions('pause', options), now())),
      ),
    resume: async (pattern) => {
      const name = readPauseName(pattern);
      return (await log.change((session) => resume(session, name, now()))).length > 0;
    },
  };
}

function readPause(pattern: string, { for: duration, fail }: PauseOptions, at: number) {
  return {
    name: readPauseName(pattern),
    kind: fail === true ? ('fail-fast' as const) : ('pause' as const),
    until:
      duration === undefined ? null : at + requireDurationMs('How long it is paused', duration),
    createdAt: at,
  };
}

function readPauseName(pattern: string): string {
  return pauseNameOf(readPatterns([pattern])[0] as string);
}
