import type { RepeatRule } from '../../schedule/repeat/rule.ts';
import { leadsNowhere, type PlannedTime, planNext } from '../../schedule/repeat/series.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { StoreSession } from '../../store/store.ts';
import { isWaiting, type JobState, type Outcome, type TokenPermission } from '../../store/words.ts';
import type { VerbOptionName } from '../add/options.ts';
import {
  checkOptions,
  invalid,
  noOptions,
  type Patterns,
  readLeaseMs,
  readPatterns,
  readPriority,
  readReason,
  readRule,
  readRunAt,
  refuseRepeatingChild,
  requireDelayMs,
  requireJobName,
  writeJson,
} from '../add/values.ts';
import type {
  BuryOptions,
  ClaimOptions,
  FailOptions,
  FinishOptions,
  Job,
  JobRef,
  RequeueOptions,
  RetryOptions,
  UpdateOptions,
} from '../api.ts';
import { QueueError, refuse, type StateWords, wrongState } from '../errors.ts';
import { findJob, findRow, readJobId, readRef, recordActor, type VerbSession } from '../read/jobs.ts';
import { nextToKick } from '../read/list.ts';
import { resumeParentIfDone } from './families.ts';
import { policyOfJob } from './own-retry.ts';
import { decideRetry, type PolicyOfName } from './retry-policy.ts';
import { type EndContext, endForOthers } from './settle.ts';
import { momentsOf, planRepeat, type Transition, toTransition } from './transition.ts';

/** The conditions of a verb, besides its job and its options. */
export interface VerbContext extends EndContext {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** The lease of a job that has none of its own, in milliseconds. */
  readonly leaseMs: number;
  /** The retry policies of handlers; null: no failed try is to be judged. */
  readonly handlerPolicy?: PolicyOfName | null;
}

/**
 * A verb of a job: from its entry follow the methods of the queue, the routes of the API, the command line and the
 * dashboard's buttons. Its effect applies to a job in a right state, in the transaction that has locked the job's row.
 */
export interface Verb<Options, Result> extends StateWords {
  readonly name: string;
  readonly options: readonly VerbOptionName[];
  /** The verb's effect, for the API's document. */
  readonly summary: string;
  /** The dashboard's button; absent: the dashboard has none. */
  readonly button?: VerbButton;
  /** The permission that a caller of the API needs. Default: run. */
  readonly permission?: 'manage';
  /** Whether the holder of a claim may name its token. */
  readonly takesToken?: boolean;
  /** Whether at least one option must be given. */
  readonly needsOption?: boolean;
  /** Whether the job's children must have ended. */
  readonly needsEndedChildren?: boolean;
  /** The state that the verb leaves as it is. */
  readonly leaves?: JobState;
  /** Whether only the run's row records it, which does not name the caller. */
  readonly isRecordedByRun?: boolean;
  /** @param isHeld whether the caller has the token of the job's claim */
  fits(job: Pick<JobHead, 'state' | 'run_at'>, at: number, isHeld: boolean): boolean;
  /** Reads the options, before the job is looked for. */
  read(options: Options, context: VerbContext): Effect<Result> | Promise<Effect<Result>>;
}

/** Texts of a button. */
interface VerbButton {
  /** Its words, with `…` where the jobs are named: `Run … now`. Default: the verb's name. */
  readonly words?: string;
  /** The verb's effect after "Job 7 (mail/welcome)". Default: the same as on the command line. */
  readonly done?: string;
  readonly effect: string;
  /** Asked about before; null: the verb does no harm. */
  readonly warning: string | null;
  readonly isDangerous?: boolean;
}

type Effect<Result> = (session: StoreSession, job: JobHead) => Promise<Result>;

function verb<Options, Result = void>(
  verb: Verb<Options, Result> & { readonly options: readonly (keyof Options)[] },
): Verb<Options, Result> {
  return verb;
}

/** Moves the job on, and ends its run if it has one. */
function moves(
  { at, ...context }: VerbContext,
  transition: Transition,
  outcome: Exclude<Outcome, 'running'>,
  reason: string | null = null,
): Effect<void> {
  return (session, job) => endForOthers(session, { job, transition, at, reason, isByOthers: true }, outcome, context);
}

const isRunning = ({ state }: Pick<JobHead, 'state'>): boolean => state === 'running';

function mayBeKicked({ state, run_at }: Pick<JobHead, 'state' | 'run_at'>, at: number): boolean {
  return state === 'failed' || (isWaiting(state) && run_at > at);
}

const dueHint = 'it is due, and will run in its turn';

/** The rules of a claim by number. */
export const claimByNumber = {
  ...{ name: 'claimJob', options: ['lease'], expected: 'waiting or failed job', done: 'claimed' },
} as const;

/** The verbs of a job, for anybody who knows its number or holds its claim. */
export const verbs = {
  finish: verb<FinishOptions>({
    name: 'finish',
    options: ['result', 'data'],
    summary: 'Ends a running job as finished, with its result',
    takesToken: true,
    ...{ expected: 'running job', done: 'finished', fits: isRunning, isRecordedByRun: true },
    read: ({ result, data }, context) => {
      const set = { result: result === undefined ? null : writeJson('result', result), ...readChanges({ data }) };
      return moves(context, { kind: 'finish', set }, 'succeeded');
    },
  }),

  /** A repeating job waits for its next time, unless that is ignored; any other one for the given time or delay. */
  retry: verb<RetryOptions>({
    name: 'retry',
    options: ['delay', 'runAt', 'priority', 'name', 'data', 'reason', 'ignoreRepeat'],
    summary: 'Puts a running job back into the queue',
    button: {
      effect: 'Back into the queue, though it is running',
      warning: 'What it has done so far may already have had an effect, and it runs again from its beginning.',
    },
    takesToken: true,
    ...{ expected: 'running job', done: 'put back into the queue', fits: isRunning, isRecordedByRun: true },
    read: ({ delay, runAt, priority, name, data, ignoreRepeat = false, reason }, context) => {
      const { at, missedCap } = context;
      const dueAt = readRunAt(runAt ?? at + requireDelayMs('The delay', delay ?? '0', 'delay'), at);
      const set = readChanges({ priority, name, data });
      const why = readReason(reason);
      return async (session, job) => {
        const repeats = job.repeat !== null && !ignoreRepeat;
        const next = repeats ? await planRepeat(job, at, missedCap) : null;
        if (next !== null && 'problem' in next) throw new QueueError('wrong-state', next.problem);
        const transition = { kind: 'retry', isTry: false, runAt: dueAt, next, set } as const;
        await moves(context, transition, 'released', why)(session, job);
      };
    },
  }),

  fail: verb<FailOptions>({
    name: 'fail',
    options: ['reason', 'data', 'mayRetry'],
    summary: 'Ends a running job as failed; with mayRetry only this try',
    takesToken: true,
    ...{ expected: 'running job', done: 'failed', fits: isRunning, isRecordedByRun: true },
    read: ({ reason, data, mayRetry = false }, context) => {
      const { at, handlerPolicy = null } = context;
      const why = readReason(reason) ?? 'it was failed by its claimant';
      const set = readChanges({ data });
      return async (session, job) => {
        const transition: Transition =
          mayRetry && handlerPolicy !== null ? decideFailedTry(job, handlerPolicy, at) : { kind: 'fail' };
        await moves(context, { ...transition, set }, 'failed', why)(session, job);
      };
    },
  }),

  /** Sets a job aside until it is kicked. */
  bury: verb<BuryOptions>({
    name: 'bury',
    options: ['reason', 'priority'],
    summary: 'Sets a running or waiting job aside until it is kicked',
    button: { effect: 'Set aside as failed until somebody runs it', warning: null },
    takesToken: true,
    ...{ expected: 'running or waiting job', done: 'buried' },
    hints: { failed: 'it stays failed until it is kicked' },
    fits: ({ state }) => state === 'running' || isWaiting(state),
    read: ({ priority, reason }, context) =>
      moves(context, { kind: 'bury', set: readChanges({ priority }) }, 'failed', readReason(reason) ?? 'it was buried'),
  }),

  /** Makes a job due at once, with all its tries. */
  kick: verb<object>({
    name: 'kick',
    options: [],
    summary: 'Makes a failed or delayed job due at once, with all its tries',
    button: {
      words: 'Run … now',
      effect: 'Due at once, with all its tries: the next free worker takes it',
      done: 'made due now',
      warning: null,
    },
    ...{ expected: 'failed or delayed job', done: 'kicked', fits: mayBeKicked },
    hints: { queued: dueHint, retrying: dueHint, running: 'bury it first, or wait for its end' },
    read: (_, context) => moves(context, { kind: 'kick' }, 'released'),
  }),

  /** A cancelled job stays as it is. */
  cancel: verb<object>({
    name: 'cancel',
    options: [],
    summary: 'Ends a waiting or failed job as cancelled; one that is cancelled stays so',
    button: {
      effect: 'It will not run any more',
      warning: 'It will not run any more, nor will those of its children that wait.',
      isDangerous: true,
    },
    leaves: 'cancelled',
    ...{ expected: 'waiting or failed job', done: 'cancelled' },
    fits: ({ state }) => state !== 'running' && state !== 'finished',
    read: (_, context) => async (session, job) => {
      if (job.state === 'cancelled') return;
      await moves(context, { kind: 'cancel' }, 'failed', 'it was cancelled')(session, job);
    },
  }),

  /** Begins the lease anew. Only an explicit lease can make it end sooner than before. Returns when it ends. */
  touch: verb<Pick<ClaimOptions, 'lease'>, Date>({
    name: 'touch',
    options: ['lease'],
    summary: 'Renews the claim of a running job',
    takesToken: true,
    ...{ expected: 'running job', done: 'touched', fits: isRunning },
    read: ({ lease }, { at, leaseMs }) => {
      const givenMs = lease === undefined ? null : readLeaseMs(lease);
      return async (session, { id, claim_token, lease_ms, lease_expires_at: before }) => {
        const usualAt = at + (leaseOfToken(claim_token) ?? lease_ms ?? leaseMs);
        const lease_expires_at = givenMs === null ? Math.max(usualAt, before ?? 0) : at + givenMs;
        await session.jobs.change([{ id, set: { lease_expires_at, lease_extended: 0 } }], at);
        return new Date(lease_expires_at);
      };
    },
  }),

  /** Removes a job with its runs and its children. */
  delete: verb<object>({
    name: 'delete',
    options: [],
    summary: 'Removes a job with its runs and its ended children; for a running job, the token of its claim is needed',
    button: {
      effect: 'Removed with its runs and their output',
      warning: 'Data, runs and output are removed. Nothing brings them back.',
      isDangerous: true,
    },
    permission: 'manage',
    takesToken: true,
    needsEndedChildren: true,
    ...{ expected: 'job that does not run', done: 'deleted' },
    fits: ({ state }, _, isHeld) => state !== 'running' || isHeld,
    read:
      (_, { at, archive }) =>
      async (session, job) => {
        const jobs = [...(await endedChildren(session, job)), job];
        archive?.unnamed.push(...(await session.jobs.delete(jobs.map(({ id }) => id))));
        await session.events.record(
          jobs.map(({ id, name }) => ({ at, event: 'job-deleted' as const, jobId: id, detail: name })),
        );
        await resumeParentIfDone(session, job.parent_id, at);
      },
  }),

  /** Changes a job without changing its state. */
  update: verb<UpdateOptions>({
    name: 'update',
    options: ['data', 'priority', 'runAt', 'repeat'],
    summary: 'Changes data, priority, time or rule of a job, in any state, without changing the state',
    takesToken: true,
    needsOption: true,
    ...{ expected: 'job', done: 'updated', fits: () => true },
    read: async (options, context) => {
      const { data, priority, repeat, runAt } = options;
      const { at } = context;
      const changes = readChanges({ data, priority });
      const rule = repeat === undefined || repeat === null ? repeat : await readRule(repeat, ', or null for none');
      const askedAt = runAt === undefined ? null : readRunAt(runAt, at);
      const words = { data: 'data', priority: 'priority', repeat: 'rule', runAt: 'time' } as const;
      const changed = Object.entries(words).filter(([option]) => options[option as keyof UpdateOptions] !== undefined);
      const detail = changed.map(([, word]) => word).join(', ');
      return async (session, job) => {
        if (rule && job.parent_id !== null) throw refuseRepeatingChild(job);
        const ruled = { ...job, repeat: rule === undefined ? job.repeat : (rule?.text ?? null) };
        const set = {
          ...{ ...changes, ...(rule !== undefined && { repeat: ruled.repeat }) },
          ...(askedAt === null && rule && isWaiting(job.state) && (await timeOf(rule, job, context))),
          ...(askedAt !== null && { run_at: askedAt, ...(ruled.repeat !== null && { scheduled_for: askedAt }) }),
        };
        await session.jobs.change([{ id: job.id, set }], at);
        await session.events.record([{ at, event: 'job-updated', jobId: job.id, detail }]);
      };
    },
  }),

  /** Queues a job anew, due since it was added. A claim that holds it ends. */
  requeue: verb<RequeueOptions>({
    name: 'requeue',
    options: ['name', 'forgetTry'],
    summary: 'Queues a job again from any state, first of its priority',
    button: {
      effect: 'Queued once more, first in line',
      warning: 'It runs from its beginning, even if it has already run.',
    },
    needsEndedChildren: true,
    ...{ expected: 'job that waits for no children', done: 'requeued', fits: () => true },
    read: ({ name, forgetTry = false }, context) => {
      const set = readChanges({ name });
      const why = forgetTry ? 'its job was requeued: it never reached a worker' : 'its job was requeued while it ran';
      return async (session, job) => {
        const isParent = job.state === 'paused' && (await session.jobs.hasOpenChildren(job.id));
        if (isParent) throw wrongState(job, verbs.requeue);
        await moves(context, { kind: 'requeue', forgetTry: forgetTry === true, set }, 'released', why)(session, job);
      };
    },
  }),
};

/** Columns that several verbs change. */
function readChanges({ data, priority, name }: { data?: unknown; priority?: unknown; name?: unknown }) {
  return {
    ...(data !== undefined && { data: writeJson('data', data) }),
    ...(priority !== undefined && { priority: readPriority(priority) }),
    ...(name !== undefined && { name: requireJobName(name) }),
  };
}

/** Decides as after a failed run of the runner's own. */
function decideFailedTry({ name, retry, attempts }: JobHead, handlerPolicy: PolicyOfName, at: number): Transition {
  const failed = { outcome: 'failed', attempt: attempts, isRetryable: true, at } as const;
  return toTransition(decideRetry(policyOfJob(retry, handlerPolicy(name)), failed));
}

/** The lease that a claim was made with, in milliseconds; null: none was requested. */
function leaseOfToken(token: string | null): number | null {
  const [, leaseMs] = /^[0-9a-f-]{36}\/(\d{1,13})$/.exec(token ?? '') ?? [];
  return leaseMs === undefined ? null : Number(leaseMs);
}

export type VerbName = keyof typeof verbs;

/** The verbs, in the order in which help and messages list them. */
export const verbNames = Object.keys(verbs) as VerbName[];

/** The verb of this name, whatever its options. */
export const verbOf = (name: VerbName): Verb<object, unknown> => verbs[name];

/** The permission that a caller of the API needs for a verb. */
export const permissionOf = (name: VerbName): TokenPermission => verbOf(name).permission ?? 'run';

/** The methods of the queue that apply a verb to one job. */
export type VerbMethods = {
  readonly [Name in VerbName]: (typeof verbs)[Name] extends Verb<infer Options, infer Result>
    ? (job: JobRef, options?: Options) => Promise<Result>
    : never;
};

/** The verbs that the queue takes for a job now and that change something, as far as the job itself tells. */
export function verbsFor({ state, runAt, parent }: Pick<Job, 'state' | 'runAt' | 'parent'>, at: number): VerbName[] {
  // A claimed job runs already, or in a moment.
  const job = { state: state === 'claimed' ? 'running' : state, run_at: runAt.getTime() } as const;
  const waitsForChildren = state === 'paused' && parent === null;
  return verbNames.filter((name) => {
    const { fits, leaves, needsEndedChildren = false } = verbOf(name);
    return fits(job, at, false) && leaves !== state && !(needsEndedChildren && waitsForChildren);
  });
}

/** @throws {QueueError} if a child has not ended: it would be left without its parent */
async function endedChildren(session: StoreSession, job: JobHead): Promise<JobHead[]> {
  const children = await session.jobs.children(job.id);
  const pending = children.filter(({ finished_at }) => finished_at === null);
  if (pending.length === 0) return children;
  const ids = pending.map(({ id }) => id).join(', ');
  const jobs = pending.length === 1 ? 'a child that has' : `${pending.length} children that have`;
  throw refuse(job, `has ${jobs} not ended (${ids}); cancel or delete them first.`);
}

/** The next time of a waiting job by its new rule; a running job gets its next time once it has finished. */
async function timeOf(rule: RepeatRule, job: JobHead, { at, missedCap }: VerbContext) {
  const options = { missed: job.missed_policy, nowMs: at, cap: missedCap };
  const planned: PlannedTime | null = await planNext(rule, momentsOf(job, at), options);
  if (planned !== null) return { run_at: planned.runAt, scheduled_for: planned.scheduledFor };
  const why = leadsNowhere(rule, at)
    ? 'it goes beyond the year 9999.'
    : 'it has never started. Begin the rule with SCHEDULED or FINISHED, or give a time, too.';
  const message = `${JSON.stringify(rule.text)} gives job ${job.id} no time: ${why}`;
  throw new QueueError('invalid', message, { field: 'repeat' });
}

/**
 * Applies a verb to the job. Call it in a transaction.
 *
 * @throws {QueueError} if an option is wrong, or the job's state or claim does not allow the verb
 */
export async function applyVerb<Options extends object, Result>(
  session: VerbSession,
  verb: Verb<Options, Result>,
  ref: JobRef,
  options: Options,
  context: VerbContext,
): Promise<Result> {
  checkOptions(verb.name, verb.options, options);
  const isEmpty = Object.values(options).every((value) => value === undefined);
  if (verb.needsOption && isEmpty) throw noOptions(verb.name, verb.options);
  const effect = await verb.read(options, context);
  const job = await findJob(session, ref);
  // `findJob` has already refused a token that no longer holds the job.
  const { id, token } = readRef(ref);
  if (!verb.fits(job, context.at, token !== null)) throw wrongState(job, verb);
  const result = await effect(session, job);
  const { at } = context;
  if (verb.isRecordedByRun) await recordActor(session, [{ at, event: 'job-ended', jobId: id, detail: verb.name }]);
  return result;
}

/**
 * Kicks jobs of these names, in the order of {@link nextToKick}. It skips jobs that cannot be queued again: a child
 * whose parent has ended, a job whose unique key belongs to another one by now. Call it in a transaction.
 *
 * @returns how many were kicked
 */
export async function kickJobs(
  session: StoreSession,
  patterns: Patterns,
  count: number,
  context: VerbContext,
): Promise<number> {
  const { at } = context;
  const globs = readPatterns(patterns);
  if (!Number.isSafeInteger(count) || count < 1) {
    throw invalid('The number of jobs to kick', 'a whole number above 0', count);
  }
  const ids = await nextToKick(session, globs, count, at);
  await session.jobs.lock(ids);
  // Somebody may have been faster.
  const jobs = (await session.jobs.byId(ids)).filter((job) => mayBeKicked(job, at));
  const kick = await verbs.kick.read({}, context);
  for (const job of jobs) await kick(session, job);
  return jobs.length;
}

/**
 * Queues jobs anew from any state; all or none. Numbers that no job has are skipped. Call it in a transaction.
 *
 * @returns how many were queued
 */
export async function requeueJobs(
  session: VerbSession,
  ids: readonly number[],
  options: RequeueOptions,
  context: VerbContext,
): Promise<number> {
  if (!Array.isArray(ids)) throw invalid('The argument of requeue()', 'a list of numbers of jobs', ids);
  const unique = [...new Set(ids.map(readJobId))].sort((one, other) => one - other);
  const requeue = await verbs.requeue.read(checkOptions('requeue', verbs.requeue.options, options), context);
  let count = 0;
  for (const id of unique) {
    const job = await findRow(session, id);
    if (job === null) continue;
    await requeue(session, job);
    count += 1;
  }
  return count;
}
