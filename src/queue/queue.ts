import { planNext } from '../schedule/repeat/plan.ts';
import type { RepeatRule } from '../schedule/repeat/rule.ts';
import { leadsNowhere } from '../schedule/repeat/series.ts';
import { checkPlace } from '../settings/access.ts';
import { loadSettings } from '../settings/load.ts';
import type { QueueSettings } from '../settings/settings.ts';
import { toStoreUnavailable } from '../store/describe-failure.ts';
import type { JobRow } from '../store/schema.ts';
import type { JobHead } from '../store/shared/job-columns.ts';
import type { ChangeWatch, Store } from '../store/store.ts';
import { createLogClock, type LogClock } from '../system/base/clock.ts';
import { UsageError } from '../system/base/errors.ts';
import { keepRulesInZone } from '../system/base/zone.ts';
import { describeOwner, findOtherOwner } from '../system/place/owner.ts';
import { findRoot } from '../system/place/root.ts';
import { createStateFolder, removeOutput, type StateFolder, stateFolderOf } from '../system/place/state-folder.ts';
import { addJobs, asAdded, readPlainJobs, refuseRepeatingChild } from './add/add.ts';
import {
  checkOptions,
  invalid,
  readLeaseMs,
  readPriority,
  readReason,
  readRunAt,
  requireDurationMs,
  writeJson,
} from './add/values.ts';
import type { AddedJob, ClaimedJob, ClaimOptions, Job, JobRef, PauseOptions, Queue, UpdateOptions } from './api.ts';
import {
  asActor,
  claimForCaller,
  claimJobForCaller,
  leaseOfToken,
  openQueueLog,
  type QueueLog,
} from './claim/outside.ts';
import { shareWatch } from './claim/shared-watch.ts';
import { QueueError, wrongState } from './errors.ts';
import { type Patterns, readPatterns } from './patterns.ts';
import { pause, pauseNameOf, resume } from './pauses.ts';
import { findJob, type JsonReader, readJob, readRef, recordActor, type VerbSession } from './read/jobs.ts';
import { countJobs, isWaiting, listJobs, totalJobs } from './read/list.ts';
import { createArchive, deleteJob } from './settle/archive.ts';
import {
  buryJob,
  type CallerContext,
  cancelJob,
  failRunningJob,
  finishRunningJob,
  kickJob,
  kickJobs,
  requeueJobs,
  retryRunningJob,
} from './settle/by-caller.ts';
import { createPolicies, type PolicyOfName } from './settle/retry-policy.ts';

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
): Promise<Queue> {
  return createQueue(await openParts(options, read, clock));
}

/** One open log for many callers; each change is recorded with its caller. */
export interface SharedQueue {
  /** The verbs in this caller's name; do not close them. */
  as(actor: string): Queue;
  /** Any other change of the log, as a whole or not at all. */
  change<T>(actor: string, work: (session: VerbSession) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Opens the queue for callers that come and go, and may wait for jobs at the same time. */
export async function openSharedQueue(
  options: OpenQueueOptions,
  read: JsonReader,
  clock: LogClock,
): Promise<SharedQueue> {
  const parts = await openParts(options, read, clock, (store) => shareWatch(store.watch(), clock));
  return {
    as: (actor) => createQueue({ ...parts, log: asActor(parts.log, actor) }),
    change: (actor, work) => asActor(parts.log, actor).change(work),
    close: () => parts.log.close(),
  };
}

async function openParts(
  options: OpenQueueOptions,
  read: JsonReader,
  clock: LogClock,
  watchOf?: (store: Store) => ChangeWatch,
): Promise<QueueParts> {
  const { env = process.env, now = clock.now } = checkOptions('openQueue', options);
  const { root, settings } = await findPlace(options, env);
  const state = stateFolderOf(root, env);
  makeFolder(state);
  const log = await openQueueLog(state, { now, clock }, watchOf);
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
  /** The retry policies of handlers, for jobs without a policy of their own. */
  readonly policies: () => Promise<PolicyOfName>;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** Parses data and results. */
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

function addingVerbs({ log, now }: QueueParts): Pick<Queue, 'add' | 'addMany' | 'addUnique' | 'addManyUnique'> {
  const addManyUnique: Queue['addManyUnique'] = async (jobs) => {
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

function claimVerbs(parts: QueueParts): Pick<Queue, 'claim' | 'claimMany' | 'claimJob' | 'touch'> {
  const { log, settings, now } = parts;
  const claimMany = async <Data>(patterns: string | readonly string[], count: number, options: ClaimOptions = {}) =>
    (await claimForCaller(parts, patterns, count, checkOptions('claim', options))) as ClaimedJob<Data>[];
  return {
    claim: async <Data>(patterns: string | readonly string[] = '*', options: ClaimOptions = {}) =>
      (await claimMany<Data>(patterns, 1, options))[0] ?? null,
    claimMany,
    claimJob: async <Data>(id: number, options: { readonly lease?: string } = {}) =>
      (await claimJobForCaller(parts, id, checkOptions('claimJob', options))) as ClaimedJob<Data>,
    touch: (job, options = {}) =>
      log.change((session) => {
        const { lease } = checkOptions('touch', options);
        return touchJob(session, job, { at: now(), lease, defaultLeaseMs: settings.leaseMs });
      }),
  };
}

function endingVerbs(parts: QueueParts): Pick<Queue, 'finish' | 'retry' | 'fail' | 'bury' | 'cancel' | 'delete'> {
  const { log, state, settings, policies, now } = parts;
  const change = async (work: (session: VerbSession, context: CallerContext) => Promise<void>): Promise<void> => {
    let archive = createArchive(settings.archive);
    await log.change(async (session) => {
      archive = createArchive(settings.archive);
      await work(session, { at: now(), missedCap: settings.missedCap, archive });
    });
    removeOutput(state, archive.unnamed);
  };
  // A run's row says how it has ended, but not who ended it.
  const end = (job: JobRef, verb: string, work: Parameters<typeof change>[0]): Promise<void> =>
    change(async (session, context) => {
      await work(session, context);
      await recordActor(session, [{ at: now(), event: 'job-ended', jobId: readRef(job).id, detail: verb }]);
    });
  return {
    finish: (job, options = {}) =>
      end(job, 'finish', (session, context) =>
        finishRunningJob(session, job, checkOptions('finish', options), context),
      ),
    retry: (job, options = {}) =>
      end(job, 'retry', (session, context) => retryRunningJob(session, job, checkEnding('retry', options), context)),
    fail: async (job, options = {}) => {
      const said = checkEnding('fail', options);
      const handlerPolicy = said.mayRetry === true ? await policies() : null;
      await end(job, 'fail', (session, context) => failRunningJob(session, job, said, context, handlerPolicy));
    },
    bury: (job, options = {}) => log.change((session) => buryJob(session, job, checkEnding('bury', options), now())),
    cancel: (id) => change((session, context) => cancelJob(session, id, context)),
    delete: async (job) => removeOutput(state, await log.change((session) => deleteJob(session, job, now()))),
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
    kickMany: (patterns, count) => log.change((session) => kickJobs(session, patterns, count, now())),
    update: (job, options) =>
      log.change((session) => updateJob(session, job, checkOptions('update', options), updating())),
    requeue: (ids, options = {}) =>
      log.change((session) => requeueJobs(session, ids, checkOptions('requeue', options), now())),
  };
}

function readingVerbs({ log, now, read }: QueueParts): Pick<Queue, 'get' | 'list' | 'count' | 'totals'> {
  const get = (id: number) => log.ask((store) => readJob(store, id, read));
  return {
    get: async <Data, Result>(id: number) => (await get(id)) as Job<Data, Result> | null,
    list: (options = {}) => log.ask((store) => listJobs(store, checkOptions('list', options), now(), read)),
    count: (pattern = '*') => log.ask((store) => countJobs(store, pattern, now())),
    totals: (pattern = '*') => log.ask((store) => totalJobs(store, pattern)),
  };
}

function pausingVerbs({ log, now }: QueueParts): Pick<Queue, 'pause' | 'resume'> {
  return {
    pause: (patterns, options = {}) =>
      log.change(async (session) => {
        const how = readPause(checkOptions('pause', options), now());
        for (const name of readPauseNames(patterns)) await pause(session, { ...how, name });
      }),
    resume: (patterns) =>
      log.change(async (session) => {
        const ended: string[] = [];
        for (const name of readPauseNames(patterns)) ended.push(...(await resume(session, name, now())));
        return ended.length > 0;
      }),
  };
}

function readPause({ for: duration, fail }: PauseOptions, at: number) {
  return {
    kind: fail === true ? ('fail-fast' as const) : ('pause' as const),
    until: duration === undefined ? null : at + requireDurationMs('The length of the pause', duration, 'for'),
    createdAt: at,
  };
}

function readPauseNames(patterns: Patterns): readonly string[] {
  return [...new Set(readPatterns(patterns).map(pauseNameOf))];
}

interface Updating {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
}

/** The parsed change; an undefined field stays unchanged. */
interface Change {
  readonly data: string | undefined;
  readonly priority: number | undefined;
  readonly runAt: number | undefined;
  /** Null: the job stops repeating. */
  readonly rule: RepeatRule | null | undefined;
}

/** Changes a job in any state, without changing the state. Call it in a transaction. */
async function updateJob(session: VerbSession, ref: JobRef, options: UpdateOptions, updating: Updating): Promise<void> {
  const { at } = updating;
  const change = await readChange(options, at);
  const changed = Object.keys(change).filter((key) => change[key as keyof Change] !== undefined);
  if (changed.length === 0) throw invalid('An update', 'an object with data, priority, repeat or runAt', options);
  const job = await findJob(session, ref);
  const set = { ...plainColumns(change), ...(await timeColumns(job, change, updating)) };
  await session.jobs.change([{ id: job.id, set }], at);
  const detail = changed.map((key) => words[key as keyof Change]).join(', ');
  await session.events.record([{ at, event: 'job-updated', jobId: job.id, detail }]);
}

const words: Readonly<Record<keyof Change, string>> = {
  data: 'data',
  priority: 'priority',
  runAt: 'time',
  rule: 'rule',
};

async function readChange({ data, priority, repeat, runAt }: UpdateOptions, at: number): Promise<Change> {
  return {
    data: data === undefined ? undefined : writeJson('data', data),
    priority: priority === undefined ? undefined : readPriority(priority),
    rule: repeat === undefined || repeat === null ? repeat : await readRule(repeat),
    runAt: runAt === undefined ? undefined : readRunAt(runAt, at),
  };
}

async function readRule(text: unknown): Promise<RepeatRule> {
  if (typeof text !== 'string' || text === '') {
    throw invalid('A repeat rule', 'text such as SCHEDULED, +1 HOUR, or null for none', text, 'repeat');
  }
  const { parseRepeat } = await import('../schedule/repeat/parse.ts');
  const parsed = parseRepeat(text);
  if ('problem' in parsed) throw new QueueError('invalid', parsed.problem, { field: 'repeat' });
  return parsed.rule;
}

function plainColumns({ data, priority, rule }: Change): Partial<JobRow> {
  return {
    ...(data !== undefined && { data }),
    ...(priority !== undefined && { priority }),
    ...(rule !== undefined && { repeat: rule?.text ?? null }),
  };
}

/** A given time takes precedence over the time of a new rule. */
async function timeColumns(job: JobHead, { runAt, rule }: Change, updating: Updating): Promise<Partial<JobRow>> {
  if (rule && job.parent_id !== null) throw refuseRepeatingChild(job);
  const repeats = rule === undefined ? job.repeat !== null : rule !== null;
  if (runAt !== undefined) return { run_at: runAt, ...(repeats && { scheduled_for: runAt }) };
  return rule && isWaiting(job.state) ? await timeOf(rule, job, updating) : {};
}

/** The next time of a waiting job; a running one gets its next time once it has finished. */
async function timeOf(rule: RepeatRule, job: JobHead, { at, missedCap }: Updating): Promise<Partial<JobRow>> {
  const moments = {
    scheduled: job.scheduled_for ?? job.run_at,
    started: job.started_at,
    finished: at,
  };
  const planned = await planNext(rule, moments, {
    missed: job.missed_policy,
    nowMs: at,
    cap: missedCap,
  });
  if (planned !== null) return { run_at: planned.runAt, scheduled_for: planned.scheduledFor };
  const why = leadsNowhere(rule, at)
    ? 'it goes beyond the year 9999.'
    : 'it has never started. Begin the rule with SCHEDULED or FINISHED, or give a time, too.';
  throw new QueueError('invalid', `${JSON.stringify(rule.text)} gives job ${job.id} no time: ${why}`, {
    field: 'repeat',
  });
}

interface Touching {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** `30s`, `10m`; undefined: the lease of its claim, otherwise the job's own. */
  readonly lease: string | undefined;
  /** The lease of a job that has none of its own. */
  readonly defaultLeaseMs: number;
}

/**
 * Begins the lease of a running job anew. Only an explicit lease can make it end sooner than before. Call it in a
 * transaction.
 *
 * @returns when the lease ends
 */
async function touchJob(session: VerbSession, ref: JobRef, { at, lease, defaultLeaseMs }: Touching): Promise<Date> {
  const leaseMs = lease === undefined ? null : readLeaseMs(lease);
  const job = await findJob(session, ref);
  if (job.state !== 'running') throw wrongState(job, 'touch');
  const usualMs = leaseOfToken(job.claim_token) ?? job.lease_ms ?? defaultLeaseMs;
  const lease_expires_at = leaseMs === null ? Math.max(at + usualMs, job.lease_expires_at ?? 0) : at + leaseMs;
  await session.jobs.change([{ id: job.id, set: { lease_expires_at, lease_extended: 0 } }], at);
  return new Date(lease_expires_at);
}
