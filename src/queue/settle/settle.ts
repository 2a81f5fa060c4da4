import type { HandlerDecision } from '../../child/contract.ts';
import { withoutParameters } from '../../discovery/script.ts';
import { isRefusal } from '../../store/failures.ts';
import type { FinishedRun } from '../../store/schema.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { RunEnding, RunStart } from '../../store/shared/run-rows.ts';
import type { HeldRow } from '../../store/statements/claims.ts';

import type { JobChange } from '../../store/statements/jobs.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import type { ClaimRef, FinishedClaim, RunRef, StartedRunRow } from '../../store/statements/runs.ts';
import type { StoreSession } from '../../store/store.ts';
import { FAILING, isFailure, type JobState, SUSPECT } from '../../store/words.ts';
import { printableLine } from '../../system/base/text.ts';
import { allEnded, toMicros } from '../../system/base/values.ts';
import { type Archive, removeUnkept } from './archive.ts';
import { policyOfJob } from './own-retry.ts';
import { CALM_MS, decideRetry, type RetryDecision, type RetryPolicy } from './retry-policy.ts';
import { type JobMove, moveJob, type Transition, toTransition } from './transition.ts';

/** The facts of a run that is over. */
export interface RunToSettle {
  readonly claim: ClaimRef;
  /** `attempt` is the number that the run was given; the job's own count decides. */
  readonly start: RunStart;
  /** The number of its row, if it lasted long enough to have one. */
  readonly runId: number | null;
  readonly end: FinishedRun;
  /** The handler's result as JSON; null: none. */
  readonly result: string | null;
  readonly decision: HandlerDecision | null;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
  /** The retry policy of the script or handler. */
  readonly policy: RetryPolicy;
  /** The job when it was claimed, which usually is its present state; absent: it may have changed in any way. */
  readonly claimed?: JobHead;
  readonly spoolId?: string | null;
}

/** The conditions of a job's end, besides the job itself. */
export interface EndContext {
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** Decides which ended jobs are kept; absent: all. */
  readonly archive?: Archive;
}

/** The conditions of settling a run, besides the run itself. */
export interface SettleContext extends EndContext {
  /** When the end became known, if later than it happened; epoch milliseconds. */
  readonly observedAt?: number;
  /** Whether a person watches the runs: then their failures open no incident. Default false. */
  readonly isWatched?: boolean;
  /** Scripts whose success was recorded a moment ago, so that another success is no news. Absent: all are recorded. */
  readonly calm?: ReadonlySet<string>;
}

/** The result of settling a run. */
export interface Settled {
  /** Null if the claim was lost; the job's present owner decides. */
  readonly decision: RetryDecision | null;
  /** Null: its row was not written. */
  readonly runId: number | null;
  /** Why the log refused its end, which was then recorded as a failure; null or absent: it did not. */
  readonly refusal?: string | null;
  /** The reason of its end, as somebody had asked for that and it is recorded as stopped; absent: nobody had. */
  readonly stopped?: string;
}

/**
 * The one place that turns the outcome of a try into its consequences: for scripts and for queued jobs, whether the
 * report comes from the worker, from the recovery of a dead worker, or from a spool. Call it in a transaction; it locks
 * the rows that it reads.
 */
export async function settleRuns(
  session: StoreSession,
  runs: readonly RunToSettle[],
  context: SettleContext,
): Promise<Settled[]> {
  const finished = arePlain(runs, context) ? await finishPlain(session, runs, context) : noneFinished;
  const others = runs.filter((run) => !finished.has(run));
  const settled =
    others.length === 0 ? finished : new Map([...finished, ...(await settleEach(session, others, context))]);
  return runs.map((run) => settled.get(run) ?? { decision: null, runId: run.runId });
}

/** Runs that were settled without a look at their jobs. */
type Finished = ReadonlyMap<RunToSettle, Settled>;

const noneFinished: Finished = new Map();

/** Whether all runs have succeeded without consequences, as far as their jobs are known. */
function arePlain(runs: readonly RunToSettle[], context: SettleContext): boolean {
  return runs.every((run) => isPlain(run, context));
}

/** Whether nothing at all follows: their scripts have also succeeded a moment ago. */
export function areUneventful(runs: readonly RunToSettle[], context: SettleContext): boolean {
  const isNews = ({ start, end }: RunToSettle) => end.suspect === 1 || !context.calm?.has(start.script);
  return arePlain(runs, context) && !runs.some(isNews);
}

function isPlain({ claimed, runId, end, spoolId = null }: RunToSettle, context: SettleContext): boolean {
  if (claimed === undefined || runId !== null || spoolId !== null) return false;
  if (end.outcome !== 'succeeded' || end.finished_at === null || context.observedAt !== undefined) return false;
  if (claimed.parent_id !== null || claimed.repeat !== null || claimed.tier !== null) return false;
  const { archive } = context;
  return archive === undefined || archive.keepsAll || archive.keeps(claimed.name, 'finished');
}

/** Settles the plain runs whose jobs are unchanged since their claim. Call it in a transaction. */
async function finishPlain(
  session: StoreSession,
  runs: readonly RunToSettle[],
  context: SettleContext,
): Promise<Finished> {
  const finished = new Map<RunToSettle, Settled>();
  if (runs.length === 0) return finished;
  const calm = new Set(context.calm);
  const ids = await session.runs.finish(runs.map(asFinished));
  for (const [index, run] of runs.entries()) {
    const runId = ids[index] ?? null;
    if (runId === null) continue;
    const { start, end } = run;
    finished.set(run, { decision: { state: 'finished' }, runId });
    await noteEnd(session, { ...start, runId, end, leftJob: 'finished', at: end.finished_at ?? start.startedAt }, calm);
  }
  return finished;
}

export function asFinished({ claim, start, end, result }: RunToSettle): FinishedClaim {
  return { ...start, key: claim.token, end, result };
}

async function settleEach(
  session: StoreSession,
  runs: readonly RunToSettle[],
  context: SettleContext,
): Promise<Finished> {
  const rows = await session.claims.held(runs.map(({ claim }) => claim));
  const children = rows.filter(({ parent_id }) => parent_id !== null);
  if (children.length > 0) await session.jobs.lock(children.map(({ id }) => id));
  const held = new Map(rows.map((job) => [job.claim_token as string, job]));
  const ended: (JobEnd &
    Pick<Settled, 'stopped'> & { readonly decided: RetryDecision; readonly ofRun: RunToSettle })[] = [];
  for (const run of runs) {
    const job = held.get(run.claim.token);
    if (job === undefined) {
      await keepLate(session, run, context);
      continue;
    }
    const stopped = await findUnheededStop(session, run);
    const end = stopped === null ? run.end : { ...run.end, outcome: 'stopped' as const, reason: stopped };
    ended.push({ ...endOf(job, { ...run, end }, context), ...(stopped !== null && { stopped }), ofRun: run });
  }
  const runIds = await endJobs(session, ended, context);
  return new Map(
    ended.map(({ ofRun, decided, stopped }, index) => [
      ofRun,
      { decision: decided, runId: runIds[index] ?? null, ...(stopped !== undefined && { stopped }) },
    ]),
  );
}

/**
 * Why a run counts as stopped although its worker has not ended it: somebody asked for that before it failed, crashed or
 * was given back. Null: it does not.
 */
async function findUnheededStop(session: StoreSession, { runId, claim, end }: RunToSettle): Promise<string | null> {
  if (runId === null || end.outcome === 'succeeded' || end.outcome === 'stopped') return null;
  return await findStop(session, { runId, jobId: claim.id }, end.reason ?? end.outcome);
}

/**
 * The reason of a run whose end somebody has asked for: "stopped by ada; exit code 1". Null: nobody has.
 *
 * @param ended how it ended
 */
export async function findStop({ events }: StoreSession, run: RunRef, ended: string): Promise<string | null> {
  const by = await events.whoStops(run);
  return by === null ? null : `stopped by ${printableLine(by)}; ${ended}`;
}

/**
 * The claim was lost, so only the output is still recorded. From now on others may have the job: its process has ended.
 */
async function keepLate(session: StoreSession, run: RunToSettle, { observedAt }: SettleContext): Promise<void> {
  const { runId, claim, end, start } = run;
  await session.claims.release([claim], observedAt ?? end.finished_at ?? start.startedAt);
  if (runId !== null) await session.runs.addOutput({ runId, jobId: claim.id }, end);
}

function endOf(held: HeldRow, run: RunToSettle, { observedAt }: SettleContext) {
  const { start, runId, end, spoolId = null } = run;
  const endedAt = end.finished_at ?? start.startedAt;
  const job = asBegun(held, start);
  const { transition, decision: decided } = decide(job, run, observedAt ?? endedAt);
  // The end of a script in a spool keeps its instant: by that, others that waited for it have used it already.
  const isKept = job.tier !== null && spoolId !== null && decided.state !== 'retrying';
  const at = isKept ? endedAt : (observedAt ?? endedAt);
  const ended = { ...start, attempt: job.attempts, runId, end, spoolId };
  // Also where the policy cancels the job after a crash: nobody has asked for that crash.
  return { job, transition, at, reason: transition.reason ?? end.reason, run: ended, decided, isMeant: false };
}

/** A job whose claim, or whose wait, ends. */
export interface JobEnd extends JobMove {
  /** The run that ends with it; null: it has none. */
  readonly run: Omit<RunEnding, 'leftJob'> | null;
  /** Whether a person wants this end, and needs no alert. Default: true if the job is cancelled or buried. */
  readonly isMeant?: boolean;
}

/**
 * Ends the claims or waits of jobs, with all consequences: for their families, their runs, their incidents, and for
 * those that nobody keeps. Call it in a transaction.
 *
 * @returns the numbers of the runs' rows; null: it has none
 */
export async function endJobs(
  session: StoreSession,
  ends: readonly JobEnd[],
  context: Omit<SettleContext, 'observedAt'>,
): Promise<(number | null)[]> {
  const { missedCap, archive, isWatched = false } = context;
  const changes: JobChange[] = [];
  const moved: { readonly end: JobEnd; readonly leftJob: JobState }[] = [];
  for (const end of ends) {
    const { job, run } = end;
    const isAlone = job.parent_id === null && (job.tier !== null || job.has_children === false);
    const facts = { missedCap, isRun: run !== null, changes: isAlone ? changes : null };
    moved.push({ end, leftJob: await moveJob(session, end, facts) });
  }
  const runs = moved.flatMap(({ end: { run }, leftJob }) => {
    const isFinished = leftJob === 'finished' || (run !== null && isQueuedAgain(leftJob, run.end));
    return run === null ? [] : [{ ...run, leftJob: isFinished ? null : leftJob }];
  });
  const [, written] = await allEnded([
    changes.length > 0 ? session.jobs.change(changes, ends[0]?.at ?? 0) : null,
    runs.length > 0 ? session.runs.end(runs) : [],
  ]);
  const calm = new Set(context.calm);
  const runIds: (number | null)[] = [];
  for (const { end, leftJob } of moved) {
    const { job, run, at, reason, transition } = end;
    const { kind } = transition;
    const runId = run === null ? null : (written.shift() ?? null);
    runIds.push(runId);
    // A buried job must stay, so that it can be kicked.
    const isKept = kind === 'bury' || (await removeUnkept(session, job, leftJob, archive));
    if (end.isMeant ?? (kind === 'cancel' || kind === 'bury')) continue;
    if (run !== null) {
      const isLate = (run.spoolId ?? null) !== null;
      await noteEnd(session, { ...run, runId: isKept ? runId : null, leftJob, at, isLate, isWatched }, calm);
    } else if (kind === 'fail') {
      await (await import('./incidents.ts')).noteUnbegun(session, job, reason ?? '', at);
    }
  }
  return runIds;
}

/**
 * Ends a job for a caller other than its worker. Its run is closed without measurements; a later report by the worker
 * is refused. Call it in a transaction.
 */
export async function endForOthers(
  session: StoreSession,
  move: JobMove & { readonly job: JobHead },
  outcome: FinishedRun['outcome'],
  context: EndContext,
): Promise<void> {
  const { job, at, transition, reason } = move;
  const open = await findOpenRun(session, job, at);
  if (open === null) {
    await endJobs(session, [{ ...move, run: null }], context);
    return;
  }
  const { id: runId, ...run } = open;
  const isTimed = outcome !== 'crashed' && transition.kind !== 'requeue' && at >= run.startedAt;
  const end = {
    ...{ ...nothingKnown, outcome, finished_at: at, duration_us: isTimed ? toMicros(at - run.startedAt) : null },
    reason: outcome === 'succeeded' ? null : (reason ?? 'it was given back'),
  };
  const begun = { ...job, started_at: run.startedAt };
  const ended = { ...run, workerId: null, contentHash: null, scheduledFor: null, runId, end };
  await endJobs(session, [{ ...move, job: begun, run: ended }], context);
}

type OpenRun = Pick<StartedRunRow, 'jobId' | 'key' | 'script' | 'startedAt' | 'attempt' | 'timeoutMs'> & {
  readonly id: number | null;
};

/** The run of a job. A job that was claimed, and that nobody has seen begin, gets a run that begins now. */
async function findOpenRun(
  session: StoreSession,
  { id: jobId, name, state, attempts: attempt, claim_token }: JobHead,
  at: number,
): Promise<OpenRun | null> {
  if (state !== 'running') return null;
  const run = await session.runs.running(jobId);
  if (run !== null || claim_token === null) return run;
  const script = `queue/${withoutParameters(name)}`;
  return { id: null, jobId, key: null, script, startedAt: at, attempt, timeoutMs: null };
}

/** Columns whose values may come from the handler's process, as if it had told nothing. */
const unsaid = {
  ...{ user_cpu_us: null, system_cpu_us: null, max_rss_bytes: null, rss_delta_bytes: null, measured_by: null },
  ...{ error_name: null, error_message: null, error_stack: null, suspect: 0 },
} as const satisfies Partial<FinishedRun>;

/** The columns of a run of which only the end is known. */
const nothingKnown = {
  ...{ ...unsaid, exit_code: null, signal: null, warning: null, output: null },
  ...{ output_bytes: null, output_dropped_bytes: null, output_file: null, output_file_bytes: null },
} as const satisfies Partial<FinishedRun>;

/** A run that has ended, and the new state of its job. */
interface NotedEnd extends Pick<RunStart, 'script' | 'startedAt'> {
  readonly runId: number | null | undefined;
  readonly end: FinishedRun;
  readonly leftJob: JobState | null;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Whether the report comes late, from a spool. */
  readonly isLate?: boolean;
  readonly isWatched?: boolean;
}

/**
 * Opens, counts or closes the incidents of a script after a run's end: people learn from them that it has failed for
 * good, or no longer fails. Call it in the transaction that settles the run.
 *
 * @param calm scripts without an open incident since a success that was recorded in the same transaction
 */
export async function noteEnd(session: StoreSession, run: NotedEnd, calm: Set<string> = new Set()): Promise<void> {
  const { script, end, runId = null, leftJob, at, isLate = false, isWatched = false } = run;
  const isSuccess = end.outcome === 'succeeded';
  const isSuspect = isSuccess && end.suspect === 1;
  const isTrouble = isSuspect || (isFailure(end.outcome) && leftJob !== 'retrying');
  if (isTrouble && (isSuspect || !isWatched)) calm.delete(script);
  if (isSuccess && !calm.has(script)) {
    if (!isSuspect) calm.add(script);
    const calmMs = script.startsWith('queue/') ? CALM_MS : null;
    const success = { subject: script, codes: isSuspect ? [FAILING] : [FAILING, SUSPECT], at, calmMs };
    await incidentsOf(session.statements).succeed(isLate ? { ...success, seenBy: at } : success);
  }
  if (isTrouble && !isWatched) {
    await (await import('./incidents.ts')).noteTrouble(session, { ...run, runId, isLate });
  }
}

/** A repeating job that succeeded is queued at once, but it has finished nevertheless. */
function isQueuedAgain(state: JobState, { outcome }: FinishedRun): boolean {
  return state === 'queued' && outcome === 'succeeded';
}

/** A claimed job that was not recorded as begun has begun nevertheless. */
function asBegun(job: HeldRow, { startedAt }: RunStart): HeldRow {
  if (job.state !== 'claimed') return job;
  return { ...job, state: 'running', attempts: job.attempts + 1, started_at: startedAt };
}

/** The decision for a job that was given back without a request. */
const atOnce: Extract<HandlerDecision, { kind: 'retry' }> = { kind: 'retry', delayMs: 0 };

interface Decided {
  readonly transition: Transition & { readonly reason?: string };
  readonly decision: RetryDecision;
}

function decide(job: JobHead, run: RunToSettle, at: number): Decided {
  const { end, result, isRetryable } = run;
  const isStopped = end.outcome === 'stopped';
  const asked = isStopped ? null : (run.decision ?? (end.outcome === 'released' ? atOnce : null));
  if (end.outcome === 'succeeded') {
    return { transition: { kind: 'finish', set: { result } }, decision: { state: 'finished' } };
  }
  if (asked?.kind === 'fail') {
    return { transition: { kind: 'fail', reason: asked.reason }, decision: { state: 'failed' } };
  }
  const policy = job.tier === null ? policyOfJob(job.retry, run.policy) : run.policy;
  const ended = { outcome: end.outcome, attempt: job.attempts, isRetryable, at };
  if (asked?.kind === 'retry') {
    const { kind, delayMs = policy.delay.firstMs, runAt: askedFor = at + delayMs, failure, ...set } = asked;
    const isTry = failure !== undefined;
    const hasTries = !isTry || decideRetry(policy, ended).state === 'retrying';
    const runAt = Math.max(askedFor, at);
    if (hasTries) {
      return { transition: { kind, runAt, isTry, set }, decision: { state: 'retrying', runAt } };
    }
  }
  const decision = decideRetry(policy, ended);
  return { transition: toTransition(decision), decision };
}

/** A run with its end, on its way to the log. */
type ToldEnd = Pick<RunToSettle, 'end' | 'result' | 'decision' | 'isRetryable'>;

/**
 * Records a run whose end the log has refused because of its handler's words, or of values that somebody wrote into its
 * job: as failed and, if that is refused again, without any words. One run must not block all others.
 *
 * @throws the error itself if it is not a refusal: then the log or the runner is to blame, not the run
 */
export async function recordRefused<Run extends ToldEnd, T>(
  run: Run,
  error: unknown,
  record: (refused: Run) => Promise<T>,
): Promise<T> {
  if (!isRefusal(error)) throw error;
  const reason = `its end could not be recorded: ${(error as Error).message}`;
  const end = { ...run.end, ...unsaid, outcome: 'failed' as const, reason };
  const refused = { ...run, end, result: null, decision: null, isRetryable: false };
  return await record(refused).catch((again) => {
    if (!isRefusal(again)) throw again;
    return record({ ...refused, end: withoutWords(end) });
  });
}

/** The output stays in its file, if it has one. */
function withoutWords({ counts, ...end }: FinishedRun): FinishedRun {
  const dropped = end.output_file === null ? end.output_bytes : end.output_dropped_bytes;
  return { ...end, output: null, output_dropped_bytes: dropped, warning: null };
}
