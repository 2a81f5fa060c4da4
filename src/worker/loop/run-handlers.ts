import type { HandlerDecision } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import { endNotStarted, endUnmeasured, noOutput, type RunEnd } from '../../execution/result/result.ts';
import type { HandlerRequest } from '../../execution/start/process.ts';
import { type BegunEnd, type HandlerRunner, isKeptWarm } from '../../execution/warm/run.ts';
import { beatMs, endExpiredLeases } from '../../queue/claim/leases.ts';
import { describeChildren } from '../../queue/settle/families.ts';
import type { PolicyOfName } from '../../queue/settle/retry-policy.ts';
import { isLogFailure, isStoreFailure } from '../../store/failures.ts';
import type { ClaimRef } from '../../store/statements/runs.ts';
import type { Store } from '../../store/store.ts';
import { isFailure } from '../../store/words.ts';
import { now } from '../../system/base/clock.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { reconcileIfNeeded, reportStoreFailure } from '../invocation/with-store.ts';
import { findDeadWorkers } from '../recovery/dead-workers.ts';
import { hasOrphanedClaim } from '../recovery/tier-lock.ts';
import { createProgressReport, requestOfEach, stopIfReplaced } from './loop.ts';
import type { HandlerRun, QueueRecorder } from './queue-recorder.ts';
import type { EndedRun } from './recorder.ts';

/** The parts that one executor needs to run the handlers of its jobs. */
export interface HandlerEquipment {
  readonly call: StoreInvocation;
  readonly recorder: QueueRecorder;
  readonly runner: HandlerRunner;
  readonly heartbeat: Pick<LeaseHeartbeat, 'guard' | 'unguard'>;
  readonly runStop: ReturnType<typeof createRunStop>;
}

/** Ends the runs of one executor: when its worker stops, or when the job of its present run was taken from it. */
export function createRunStop(ofWorker: AbortSignal) {
  let own = new AbortController();
  // Many runs share one signal: each further signal takes a large part of a short run's time.
  let signal = AbortSignal.any([ofWorker, own.signal]);
  return {
    /** The signal for the next runs. */
    next: (): AbortSignal => {
      if (!own.signal.aborted) return signal;
      own = new AbortController();
      signal = AbortSignal.any([ofWorker, own.signal]);
      return signal;
    },
    /** Ends the present run only. */
    end: (): void => own.abort(),
    /** Whether `end` was called since the last `next`. */
    get isEnded(): boolean {
      return own.signal.aborted;
    },
  };
}

/** The other runs that these runs are a part of. */
interface Serving {
  /** The runs of this executor that may be missing in the log. */
  readonly unsettled: ReadonlySet<string>;
  /** Called once a run has lasted a moment; only `begun` runs have begun or will begin. */
  readonly onLasting?: (begun: number) => Promise<void>;
}

/** Runs a job's handler once. It returns a value, whatever the handler does. */
export async function runHandler(
  executor: HandlerEquipment,
  run: HandlerRun,
  serving: Serving = { unsettled: new Set() },
): Promise<EndedRun<HandlerRun>> {
  const startedAt = executor.call.runner.now();
  const prepared = await prepare(executor, run, startedAt);
  if ('refusal' in prepared) {
    return { run, startedAt, end: endNotStarted({ failure: prepared.refusal }, 0), isRetryable: false };
  }
  const [ended] = await executeHandler(executor, [{ run: await doubtDates(run), job: prepared.job }], serving);
  return { ...(ended as EndedRun<HandlerRun>), run };
}

/** Makes a run suspect if the files of dates in its job's rule cannot be used any more: it comes on those dates, too. */
async function doubtDates(run: HandlerRun): Promise<HandlerRun> {
  const { job, script } = run;
  if (script === null || job.repeat === null || !/ except /i.test(job.repeat)) return run;
  const { findDoubt } = await import('../../schedule/repeat/limits.ts');
  const { parseRepeat } = await import('../../schedule/repeat/grammar/parse.ts');
  const parsed = parseRepeat(job.repeat);
  const doubt = 'rule' in parsed ? findDoubt(parsed.rule) : null;
  return doubt === null ? run : { ...run, script: { ...script, doubt } };
}

/**
 * Runs claimed jobs that are known to be short, one after the other, in a waiting child.
 *
 * @param runs those for which {@link isLikeMost} holds
 * @returns the runs of those that have begun
 */
export async function runHandlers(
  executor: HandlerEquipment,
  runs: readonly HandlerRun[],
  serving: Serving,
): Promise<readonly EndedRun<HandlerRun>[]> {
  const [first] = runs;
  if (first === undefined) return [];
  if (runs.length === 1) return [await runHandler(executor, first, serving)];
  const startedAt = executor.call.runner.now();
  const calls = runs.map((run) => ({ run, job: describePlain(run, startedAt) }));
  return await executeHandler(executor, calls, serving);
}

/** A shorter limit applies to one run, not to several. */
const SHORTEST_LIMIT_MS = 1_000;

/** Whether the row contains all that the handler needs, and the handler shares a process with other jobs. */
export function isLikeMost({ job, script, attempt, timeoutMs }: HandlerRun): boolean {
  if (script === null || script.refusals.length > 0 || !isKeptWarm(script)) return false;
  if (script.options.failOn !== undefined || script.options.expect !== undefined) return false;
  const isAlone = job.parent_id === null && !job.has_unreported_children && job.repeat === null;
  return isAlone && attempt === 1 && timeoutMs >= SHORTEST_LIMIT_MS;
}

function describePlain({ job, attempt }: HandlerRun, startedAt: number): DescribedJob {
  return {
    id: job.id,
    name: job.name,
    data: job.data,
    attempt,
    scheduledFor: job.scheduled_for,
    startedAt,
    latenessMs: startedAt - job.run_at,
    lastSuccess: null,
    previouslyCrashed: false,
    parentData: null,
    children: null,
  };
}

/**
 * The end of a run in which the runner failed. One job must not end the worker, or the jobs of its other executors.
 * Only an error of the log is thrown, because without the log no job can be recorded; a missing file belongs to the
 * run.
 */
function endDefect({ runner }: HandlerEquipment, error: unknown): RunEnd {
  if (isLogFailure(error)) throw error;
  runner.abandon();
  const reason = `the runner failed to run it: ${error instanceof Error ? error.message : error}`;
  const finishedAt = now();
  return endUnmeasured({
    outcome: 'failed',
    finishedAt,
    durationMs: null,
    reason,
    output: noOutput,
  });
}

const atOnce: Extract<HandlerDecision, { kind: 'retry' }> = { kind: 'retry', delayMs: 0 };

/** A handler that failed because it was ended with its worker has not used a try of its own. */
function releaseIfEnded({ stop }: StoreInvocation, end: RunEnd): RunEnd {
  const { outcome, signal } = end;
  const isToldToo = outcome === 'killed' && ['SIGTERM', 'SIGINT', 'SIGHUP'].includes(signal ?? '');
  const isEnded = stop.signal.aborted || (stop.isTold && isToldToo);
  // The time limit was reached before the stop.
  if (!isEnded || !isFailure(outcome) || outcome === 'timed-out') return end;
  const { failure: _, kind: __, ...asked } = end.ask?.kind === 'retry' ? end.ask : atOnce;
  return { ...end, outcome: 'released', ask: { ...atOnce, ...asked } };
}

/** The job got its end from the caller that moved it on; neither that end nor this run is a failure of the handler. */
function releaseIfTaken({ runStop }: HandlerEquipment, end: RunEnd): RunEnd {
  if (!runStop.isEnded || !isFailure(end.outcome) || end.outcome === 'timed-out') return end;
  const reason = 'ended because somebody else had failed, buried, requeued or deleted its job';
  return { ...end, outcome: 'released', reason };
}

/** The facts of its job for a handler. */
type DescribedJob = HandlerRequest['job'];

async function prepare(
  { call }: HandlerEquipment,
  run: HandlerRun,
  startedAt: number,
): Promise<{ readonly job: DescribedJob } | { readonly refusal: string }> {
  const { job, script, attempt } = run;
  if (script === null) return { refusal: `there is no handler jobs/queue/${job.name} here` };
  if (script.refusals.length > 0) return { refusal: script.refusals.join('\n') };
  const { store } = call;
  const children = job.has_unreported_children ? await describeChildren(store, job.id) : null;
  if (children !== null && 'problem' in children) return { refusal: children.problem };
  const [parent] = job.parent_id === null ? [] : await store.jobs.wholeById([job.parent_id]);
  return {
    job: {
      ...describePlain(run, startedAt),
      lastSuccess: job.repeat === null ? null : await store.runs.lastSuccess(job.id),
      previouslyCrashed: attempt > 1 && (await store.runs.hasTryCrashed(job.id)),
      parentData: parent?.data ?? null,
      children: children?.json ?? null,
    },
  };
}

/** A call of a handler. */
interface Call {
  readonly run: HandlerRun;
  readonly job: DescribedJob;
}

async function executeHandler(
  executor: HandlerEquipment,
  calls: readonly Call[],
  { unsettled, onLasting }: Serving,
): Promise<readonly EndedRun<HandlerRun>[]> {
  const { recorder, call, heartbeat, runStop } = executor;
  const stop = runStop.next();
  let begun = calls.length;
  // At most one of these runs can last, and only a lasting run has its process recorded.
  let lasting = calls[0] as Call;
  let startedAt = lasting.job.startedAt;
  const progress = createProgressReport(
    call,
    async (seen) => {
      await onLasting?.(begun);
      const whoStops = await recorder.recordProgress(lasting.run, startedAt, seen);
      heartbeat.guard(lasting.run.claim, runStop.end);
      return whoStops;
    },
    (error) => call.events.emit('warning', `the process of ${lasting.run.name} could not be recorded: ${error}`),
  );
  const requests = calls.map((each, index) =>
    requestOf(executor, each, {
      stop,
      onWatched: progress.watch,
      onSample: progress.sample,
      onStarted: (pid) => {
        if (index > 0) startedAt = call.runner.now();
        lasting = each;
        progress.start(pid);
      },
    }),
  );
  const running = executor.runner.run({
    requests: requests as [HandlerRequest, ...HandlerRequest[]],
    unsettled,
    onLasting: (count) => {
      begun = count;
    },
  });
  const ends = await running
    .catch((error): readonly BegunEnd[] => [{ end: endDefect(executor, error), afterMs: 0 }])
    .finally(async () => {
      await progress.settle();
      heartbeat.unguard(lasting.run.claim);
    });
  return ends.map(({ end, afterMs }, index) => {
    const { run, job } = calls[index] as Call;
    stopIfReplaced(call, end);
    const startedAt = job.startedAt + Math.round(afterMs);
    return { run, startedAt, end: releaseIfTaken(executor, releaseIfEnded(call, end)), isRetryable: true };
  });
}

function requestOf(
  { call, recorder }: HandlerEquipment,
  { run: { key, claim, script, timeoutMs }, job }: Call,
  told: Pick<HandlerRequest, 'stop' | 'onStarted' | 'onWatched' | 'onSample'>,
): HandlerRequest {
  return {
    ...job,
    // Without a handler, nothing is requested.
    ...requestOfEach(call, script as Script, call.runner.state),
    ...{ key, job, timeoutMs },
    ...told,
    onUpdate: (data) => recorder.update(claim, data),
  };
}

const SHORTEST_BEAT_MS = 200;

export type LeaseHeartbeat = ReturnType<typeof renewLeases>;

interface Beating {
  readonly workerId: number;
  /** The retry policy for jobs of this name, by their handler. */
  readonly policyOfName: PolicyOfName;
  /** Called when jobs were taken back that others may claim now. */
  readonly onTakenBack: () => void;
}

function guardRuns(store: Store) {
  const guarded = new Map<ClaimRef, () => void>();
  return {
    /**
     * Calls `end` for a lasting run once its job is no longer its own: somebody else has failed, buried or requeued it.
     */
    guard: (claim: ClaimRef, end: () => void) => void guarded.set(claim, end),
    /** Call it once the run's process has ended. */
    unguard: (claim: ClaimRef) => void guarded.delete(claim),
    endLost: async (): Promise<void> => {
      const claims = [...guarded.keys()];
      if (claims.length === 0) return;
      const held = new Set((await store.claims.held(claims)).map(({ claim_token }) => claim_token));
      for (const claim of claims) if (!held.has(claim.token)) guarded.get(claim)?.();
    },
  };
}

/**
 * Renews the claims of a worker, and takes back claims that others have let expire or whose workers have died. The next
 * beat makes up for a failed one: being late alone loses no claim.
 */
export function renewLeases(call: StoreInvocation, { workerId, policyOfName, onTakenBack }: Beating) {
  const { store, runner } = call;
  const { queue } = runner.settings;
  const { leaseMs: defaultLeaseMs } = queue;
  let shortestMs = defaultLeaseMs;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  // The rescue may have to end overdue runs, and the renewals do not wait for that.
  let isRescuing = false;
  const isOrphaned = async (): Promise<boolean> =>
    (await findDeadWorkers(store, runner.state)).length > 0 || (await hasOrphanedClaim(store));
  const rescueDead = async (): Promise<void> => {
    isRescuing = true;
    try {
      await reconcileIfNeeded(call, store);
      onTakenBack();
    } catch (error) {
      if (isStopped || isStoreFailure(error)) return;
      // The present jobs go on: the next invocation meets the same error and reports it.
      call.events.emit('warning', `the recovery after dead processes failed: ${String(error)}`);
    } finally {
      isRescuing = false;
    }
  };
  /** Leftovers of dead workers may tell how their runs ended, so they come before expired leases. */
  const takeBack = async (): Promise<void> => {
    if (isRescuing) return;
    if (await isOrphaned()) void rescueDead();
    else if ((await endExpiredLeases(store, runner.now, queue, async () => policyOfName)) > 0) onTakenBack();
  };
  const { endLost, ...guarding } = guardRuns(store);
  const beat = async (): Promise<void> => {
    let heldMs = shortestMs;
    // Claims made meanwhile are noted, and claims that have ended by then are not.
    shortestMs = defaultLeaseMs;
    try {
      const renewed = await store.transaction(
        (session) => session.claims.renew(workerId, runner.now(), defaultLeaseMs),
        'soon',
      );
      heldMs = renewed ?? defaultLeaseMs;
      await endLost();
      await takeBack();
    } catch (error) {
      // After a stop the log may be closed during a beat. An error in a timer would reach nobody else.
      if (!isStopped && !isStoreFailure(error)) reportStoreFailure(call, error);
    }
    shortestMs = Math.min(shortestMs, heldMs);
    schedule();
  };
  const schedule = (): void => {
    clearTimeout(timer);
    if (isStopped) return;
    timer = setTimeout(beat, Math.max(beatMs(shortestMs), SHORTEST_BEAT_MS)).unref();
  };
  schedule();
  return {
    /** Takes a job's own lease into account, which may be shorter than all others. */
    note: (leaseMs: number | null): void => {
      if (leaseMs === null || leaseMs >= shortestMs) return;
      shortestMs = leaseMs;
      schedule();
    },
    ...guarding,
    stop: (): void => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
