import { keepRulesAt } from '../schedule/repeat/place.ts';
import { checkPlace } from '../settings/access.ts';
import { loadSettings } from '../settings/load.ts';
import { toStoreUnavailable } from '../store/describe-failure.ts';
import type { Store } from '../store/store.ts';
import { createLogClock, type LogClock } from '../system/base/clock.ts';
import { UsageError } from '../system/base/errors.ts';
import { keepRulesInZone } from '../system/base/zone.ts';
import { describeOwner, findOtherOwner } from '../system/place/owner.ts';
import { findRoot } from '../system/place/root.ts';
import { createStateFolder, removeOutput, type StateFolder, stateFolderOf } from '../system/place/state-folder.ts';
import { addJobs, asAdded, readPlainJobs } from './add/add.ts';
import { checkOptions, invalid, type Patterns, readLengthMs, readPatterns } from './add/values.ts';
import type { AddedJob, ClaimedJob, Job, JobOptions, JobRef, NewJob, Queue } from './api.ts';
import { claimForCaller, claimJobForCaller, contextOf, type QueueParts } from './claim/outside.ts';
import { QueueError } from './errors.ts';
import { asActor, openQueueLog } from './log.ts';
import { pause, pauseNameOf, pauseOf, resume } from './pauses.ts';
import { type JsonReader, readJob, recordActor, type VerbSession } from './read/jobs.ts';
import { countJobs, listJobs, listOptions, totalJobs } from './read/list.ts';
import {
  type ChangedOfMany,
  type ChangePlan,
  changeMany,
  type JobSelection,
  planChange,
  selectStep,
} from './settle/many.ts';
import { createPolicies } from './settle/retry-policy.ts';
import {
  applyVerb,
  kickJobs,
  requeueJobs,
  type VerbContext,
  type VerbMethods,
  type VerbName,
  verbNames,
  verbOf,
} from './settle/verbs.ts';

/** The place of the queue. Options that are left out are found as the `runner` command finds them. */
export interface OpenQueueOptions {
  /** The folder that contains `jobs/`. Default: `RUNNER_ROOT`, otherwise the nearest such folder from `cwd` upward. */
  readonly root?: string;
  /** Default: the current folder. */
  readonly cwd?: string;
  /** The environment that names the root and the database of the log. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The clock, in UTC epoch milliseconds. Default: the machine's clock, or the clock of the database server. */
  readonly now?: () => number;
}

/**
 * Finds a queue, opens its log, and returns its verbs.
 *
 * @param read parses data and results of jobs
 * @param clock follows the clock of the log's server; default: a new one
 */
export async function buildQueue(
  options: OpenQueueOptions,
  read: JsonReader = JSON.parse,
  clock: LogClock = createLogClock(),
): Promise<VerbQueue> {
  return createQueue(await openParts(options, read, clock));
}

/** A queue whose verbs can also be called by their names. */
export interface VerbQueue extends Queue {
  /** Returns what the method of that name does. */
  apply(verb: VerbName, job: JobRef, options?: object): Promise<unknown>;
  /** Applies the verb to each of these jobs: a refused one does not stop the others. */
  applyToMany(verb: VerbName, ids: readonly number[], options?: object): Promise<ChangedOfMany[]>;
  /** The next jobs of a selection, by number. */
  selectStep(selection: JobSelection): Promise<{ readonly ids: readonly number[]; readonly next: number | null }>;
  /** Foresees the verb's effect on the selected jobs. */
  planChange(verb: VerbName, selection: JobSelection): Promise<ChangePlan>;
}

/** One open log for many callers; each change is recorded with its caller. */
export interface SharedQueue {
  /** The verbs in this caller's name; do not close them. */
  as(actor: string): VerbQueue;
  /** Any other change of the log, as a whole or not at all. */
  change<T>(actor: string, work: (session: VerbSession) => Promise<T>): Promise<T>;
  /** The whole log, for what is more than one change. */
  ask<T>(work: (store: Store) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Opens the queue for callers that come and go, and may wait for jobs at the same time. */
export async function openSharedQueue(
  options: OpenQueueOptions,
  read: JsonReader,
  clock: LogClock,
): Promise<SharedQueue> {
  const parts = await openParts(options, read, clock);
  return {
    as: (actor) => createQueue({ ...parts, log: asActor(parts.log, actor) }),
    change: (actor, work) => asActor(parts.log, actor).change(work),
    ask: (work) => parts.log.ask(work),
    close: () => parts.log.close(),
  };
}

async function openParts(options: OpenQueueOptions, read: JsonReader, clock: LogClock): Promise<QueueParts> {
  const { env = process.env, now = clock.now } = checkOptions('openQueue', ['root', 'cwd', 'env', 'now'], options);
  const { root, settings } = await findPlace(options, env);
  const state = stateFolderOf(root, env);
  makeFolder(state);
  const log = await openQueueLog(state, { now, clock });
  const policies = createPolicies(root, settings);
  return { log, state, settings: settings.queue, policies, now, read };
}

async function findPlace({ root: option, cwd = process.cwd() }: OpenQueueOptions, env: NodeJS.ProcessEnv) {
  try {
    const root = findRoot({ option, optionName: 'root', variable: env.RUNNER_ROOT, cwd });
    const owner = findOtherOwner(root);
    if (owner !== null) throw new UsageError(`${describeOwner(owner)}.`);
    const settings = await loadSettings(root, env);
    checkPlace(root, stateFolderOf(root), settings);
    keepRulesInZone(settings.timezone);
    keepRulesAt({ root, allowUnsafe: settings.allowUnsafe });
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

/** The queue's verbs over an open log. */
function createQueue(parts: QueueParts): VerbQueue {
  const { log, state } = parts;
  const change = async <T>(work: (session: VerbSession, context: VerbContext) => Promise<T>): Promise<T> => {
    let { archive } = contextOf(parts);
    const result = await log.change((session) => {
      const context = contextOf(parts);
      archive = context.archive;
      return work(session, context);
    });
    removeOutput(state, archive.unnamed);
    return result;
  };
  const applyToAll = async (name: VerbName, jobs: readonly JobRef[], given: object): Promise<unknown> => {
    const handlerPolicy = Object(given).mayRetry === true ? await parts.policies() : null;
    return await change(async (session, context) => {
      let result: unknown;
      for (const job of jobs)
        result = await applyVerb(session, verbOf(name), job, given, { ...context, handlerPolicy });
      return result;
    });
  };
  const apply = (name: VerbName, job: JobRef, given: object = {}) => applyToAll(name, [job], given);
  const addUnique = async <Data>(name: string, data?: Data, options: JobOptions = {}): Promise<AddedJob> => {
    const [added] = await addAll(parts, [{ ...options, name, ...(data !== undefined && { data }) }]);
    return added as AddedJob;
  };
  return {
    add: async (name, data, options) => (await addUnique(name, data, options)).id,
    addMany: async (jobs) => (await addAll(parts, jobs)).map(({ id }) => id),
    addUnique,
    addManyUnique: (jobs) => addAll(parts, jobs),
    claim: async <Data>(patterns: Patterns = '*', options = {}) =>
      ((await claimForCaller(parts, patterns, 1, options))[0] ?? null) as ClaimedJob<Data> | null,
    claimMany: async <Data>(patterns: Patterns, count: number, options = {}) =>
      (await claimForCaller(parts, patterns, count, options)) as ClaimedJob<Data>[],
    claimJob: async <Data>(id: number, options = {}) =>
      (await claimJobForCaller(parts, id, options)) as ClaimedJob<Data>,
    ...verbMethods(apply),
    apply,
    applyToMany: (verb, ids, given = {}) => changeMany(verb, ids, given, (jobs) => applyToAll(verb, jobs, given)),
    selectStep: (selection) => log.ask((store) => selectStep(store, selection, parts.now())),
    planChange: (verb, selection) => log.ask((store) => planChange(store, verb, selection, parts.now())),
    kickMany: (patterns, count) => change((session, context) => kickJobs(session, patterns, count, context)),
    requeue: (ids, options = {}) => change((session, context) => requeueJobs(session, ids, options, context)),
    ...readingVerbs(parts),
    ...pausingVerbs(parts),
    close: () => log.close(),
  };
}

function verbMethods(apply: VerbQueue['apply']): VerbMethods {
  const methods = verbNames.map((name) => {
    // A caller such as `ids.map(queue.kick)` passes further arguments to a verb without options.
    const takesNone = verbOf(name).options.length === 0;
    return [name, (job: JobRef, options?: object) => apply(name, job, takesNone ? {} : options)] as const;
  });
  return Object.fromEntries(methods) as VerbMethods;
}

function readingVerbs({ log, now, read }: QueueParts): Pick<Queue, 'get' | 'list' | 'count' | 'totals'> {
  return {
    get: async <Data, Result>(id: number) =>
      (await log.ask((store) => readJob(store, id, read))) as Job<Data, Result> | null,
    list: (options = {}) =>
      log.ask((store) => listJobs(store, checkOptions('list', listOptions, options), now(), read)),
    count: (pattern = '*') => log.ask((store) => countJobs(store, pattern, now())),
    totals: (pattern = '*') => log.ask((store) => totalJobs(store, pattern)),
  };
}

function pausingVerbs({ log, now }: QueueParts): Pick<Queue, 'pause' | 'resume'> {
  return {
    pause: (patterns, options = {}) =>
      log.change(async (session) => {
        const { for: length, fail } = checkOptions('pause', ['for', 'fail'], options);
        const wish = { forMs: readLengthMs('pause', length), fail: fail === true, by: session.actor ?? null };
        await pause(
          session,
          readPauseNames(patterns).map((name) => pauseOf(name, wish, now())),
        );
      }),
    resume: (patterns) =>
      log.change(async (session) => (await resume(session, readPauseNames(patterns), now())).ended.length > 0),
  };
}

async function addAll({ log, now }: QueueParts, jobs: readonly NewJob<unknown>[]): Promise<AddedJob[]> {
  const areJobs = Array.isArray(jobs) && jobs.every((job) => typeof job === 'object' && job !== null);
  if (!areJobs) throw invalid('The argument of addMany()', 'a list of jobs', jobs);
  const plain = readPlainJobs(jobs, now());
  if (plain !== null) return (await log.add(plain)).map(asAdded);
  return await log.change(async (session) => {
    const at = now();
    const added = await addJobs(session, jobs, at);
    const fresh = added.filter((each) => each.added);
    await recordActor(
      session,
      fresh.map(({ id }) => ({ at, event: 'job-added', jobId: id })),
    );
    return added;
  });
}

function readPauseNames(patterns: Patterns): readonly string[] {
  return [...new Set(readPatterns(patterns).map(pauseNameOf))];
}
