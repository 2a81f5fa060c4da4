import { openHandlers } from '../../discovery/handlers.ts';
import { withoutParameters } from '../../discovery/script.ts';
import { endNotStarted, type RunEnd } from '../../execution/result/result.ts';
import { hasRoomToSpare } from '../../execution/script/run-script.ts';
import { createHandlerRunners } from '../../execution/warm/run.ts';
import type { UnbegunJob } from '../../queue/claim/claim.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import type { ChangeWatch } from '../../store/store.ts';
import { readTreeUsage } from '../../system/process/tree.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { hasRoomToSpareOf, type waitForRoom } from './limits.ts';
import { asRecorded } from './loop.ts';
import { createFileWatch, createPace, createWorkLimits, type WorkLimits, type WorkRequest } from './queue-limits.ts';
import { createSelector, type HandlerRun, QueueRecorder } from './queue-recorder.ts';
import type { EndedRun } from './recorder.ts';
import { createRunStop, type HandlerEquipment, type LeaseHeartbeat, renewLeases } from './run-handlers.ts';

/** The equipment of a worker, until it is closed. */
interface Equipped {
  /** One for each job that runs at the same time. */
  readonly executors: readonly Equipment[];
  close(): void;
}

/** Time between two looks at values that are too slow to read for each job. */
const LOOK_MS = 1_000;

export async function equipExecutors(
  call: StoreInvocation,
  request: WorkRequest,
  { workerId, worker }: { readonly workerId: number; readonly worker: NewWorker },
  keep: (end: RunEnd) => void,
): Promise<Equipped> {
  const { runner, store, events } = call;
  const { groupLimit, childJobs, childMemoryBytes } = runner.settings.queue;
  const watch = store.watch();
  const handlers = await openHandlers(runner.root, runner.settings);
  if (handlers.problem !== null) events.emit('problem', handlers.problem);
  const version = () => watch.look();
  const selector = createSelector({ handlers, request, groupLimit, version });
  const wake = createWakeSignal(call.stop.noMore);
  const heartbeat = renewLeases(call, {
    workerId,
    policyOfName: (name) => policyOf(handlers.optionsOf(name)),
    onTakenBack: wake.ring,
  });
  const work = limitWork(call, request);
  const pace = createPace(call, request);
  const ticker = setInterval(work.look, LOOK_MS).unref();
  const shared: Omit<Equipment, 'runner' | 'runStop' | 'ahead' | 'admit' | 'leave'> = {
    ...{ call, watch, wake, heartbeat, work },
    active: createActiveExecutors(wake.ring),
    recorder: new QueueRecorder({
      ...{ store, workerId, runner, handlers, selector },
      onUnbegun: (unbegun) => tellUnbegun(call, unbegun, keep),
    }),
    ...(store.fleet !== null && {
      spool: async (ended, error) => (await import('./spool-recorder.ts')).spoolEnds(call, worker, ended, error),
    }),
    ...limitsOf(call, request),
    waitMs: request.waitMs ?? Number.POSITIVE_INFINITY,
    onSettled: ({ run, end: told }, settled) => {
      const { decision, runId, refusal = null } = settled;
      if (refusal !== null) events.emit('warning', `job ${run.job.id} has failed, as ${refusal}`);
      const end = asRecorded(told, settled);
      const nextTryAt = decision?.state === 'retrying' ? decision.runAt : null;
      pace.note(end.durationMs ?? 0);
      keep(end);
      const { key, name: script, job } = run;
      events.emit('run-finished', { key, runId, jobId: job.id, script, end, nextTryAt });
    },
  };
  const hasRoom = () => hasRoomToSpare() && hasRoomWithin(shared.limits, request);
  const runners = createHandlerRunners(request.concurrency, { childJobs, childMemoryBytes, hasRoom });
  return {
    executors: runners.map((runner, index) => ({
      ...shared,
      runner,
      runStop: createRunStop(call.stop.signal),
      ahead: createClaimAhead(call),
      admit: () => pace.admit(index),
      leave: () => pace.leave(index),
    })),
    close: () => {
      clearInterval(ticker);
      heartbeat.stop();
      watch.close();
    },
  };
}

/** Emits the events of a run for a job that failed without one, so that it is counted. */
function tellUnbegun(
  { events, store }: StoreInvocation,
  { job, reason }: UnbegunJob,
  keep: (end: RunEnd) => void,
): void {
  const { id: jobId, claim_token: key } = job;
  const script = `queue/${withoutParameters(job.name)}`;
  const end = endNotStarted({ failure: reason }, 0);
  keep(end);
  store.onDurable(() => {
    events.emit('run-started', { key, script, output: null });
    events.emit('run-finished', { key, runId: null, jobId, script, end, nextTryAt: null });
  });
}

function limitWork({ stop }: StoreInvocation, request: WorkRequest): WorkLimits {
  return createWorkLimits({
    request,
    stop,
    files: createFileWatch(request.watchedFiles),
    startedAt: performance.now(),
    readMemoryBytes: () => readTreeUsage(process.pid)?.rssBytes ?? null,
  });
}

/** A worker that waits for jobs waits as long for room; any other one, as long as a script would. */
function limitsOf({ runner }: StoreInvocation, { maxLoad, waitMs, isAdaptive }: WorkRequest) {
  const { settings } = runner;
  const limits = {
    ...settings.limits,
    maxLoad: maxLoad ?? settings.limits.maxLoad,
    maxWaitMs: Math.max(settings.limits.maxWaitMs, waitMs ?? Number.POSITIVE_INFINITY),
  };
  const { minFreeMemoryBytes, maxProcesses } = limits;
  const isLimited = [limits.maxLoad, minFreeMemoryBytes, maxProcesses].some((each) => each !== null);
  return { limits, isHeldBack: isLimited || isAdaptive };
}

/** Whether there is room for more children than executors: they must not keep the worker from its next job. */
function hasRoomWithin(limits: Limits, { maxMemoryBytes }: WorkRequest): boolean {
  const usedBytes = maxMemoryBytes === null ? null : (readTreeUsage(process.pid)?.rssBytes ?? null);
  return hasRoomToSpareOf(limits) && (usedBytes === null || usedBytes < (maxMemoryBytes ?? 0) / 2);
}

/** The equipment of one executor: the parts that all of a worker share, and its own. */
export interface Equipment extends HandlerEquipment {
  readonly watch: ChangeWatch;
  readonly wake: ReturnType<typeof createWakeSignal>;
  readonly heartbeat: LeaseHeartbeat;
  readonly active: ReturnType<typeof createActiveExecutors>;
  readonly work: WorkLimits;
  readonly ahead: ReturnType<typeof createClaimAhead>;
  readonly limits: Limits;
  /** Whether it may have to wait before it takes a due job. */
  readonly isHeldBack: boolean;
  /** How long it waits for a job when none is due. */
  readonly waitMs: number;
  /** Settles when this executor may take a job, while fewer executors may work; false: it is not needed. */
  readonly admit: () => Promise<boolean>;
  /** Call it when the executor takes no more jobs. */
  readonly leave: () => void;
  /** Takes ends that the log cannot take; absent: the files of the runs tell about them. */
  readonly spool?: (ended: readonly EndedRun<HandlerRun>[], error: unknown) => Promise<void>;
  /** Called for each run once its end cannot be lost any more. */
  readonly onSettled: (ended: EndedRun<HandlerRun>, settled: Settled) => void;
}

type Limits = Parameters<typeof waitForRoom>[0];

const MOST_AHEAD = 32;

/** The shortest job in milliseconds, including its beginning and its end. */
const SHORTEST_MS = 0.5;

/** Jobs that are claimed together must be done within this time: nobody else can begin them meanwhile. */
const LONGEST_AHEAD_MS = 20;

/** A longer job counts as this long, so that it is remembered for a dozen jobs only. */
const LONGEST_NOTED_MS = 200;

/**
 * Claims several jobs only while jobs are known to be short, and hold no place in a group that others wait for. A job
 * that has printed anything or failed is in the log before the next one begins, because jobs sent with it would be sent
 * again.
 */
function createClaimAhead({ runner }: StoreInvocation) {
  const isAlone = runner.settings.queue.groupLimit !== null;
  let usualMs: number | null = null;
  let wasPlain = false;
  return {
    /** How many jobs are claimed at once and run together. */
    window: (): number => {
      if (isAlone || usualMs === null || !wasPlain) return 1;
      return Math.max(1, Math.min(MOST_AHEAD, Math.floor(LONGEST_AHEAD_MS / Math.max(usualMs, SHORTEST_MS))));
    },
    note: (run: EndedRun): void => {
      const { durationMs } = run.end;
      wasPlain = isPlain(run);
      if (durationMs === null) usualMs = null;
      else {
        const noted = Math.min(durationMs, LONGEST_NOTED_MS);
        usualMs = usualMs === null ? noted : usualMs + (noted - usualMs) / 4;
      }
    },
  };
}

/** Whether a run left nothing that must be in the log before the next one begins: no output, and no failure. */
export function isPlain({ end }: EndedRun): boolean {
  return end.outcome === 'succeeded' && (end.output.bytes ?? 0) === 0;
}

/**
 * Wakes the idle executors of a worker. The log's watch reports only changes by others, and an end may free a group,
 * release children, or set a retry.
 *
 * @param noMore also rings when it is aborted, because then nobody may wait
 */
export function createWakeSignal(noMore: AbortSignal) {
  let controller = new AbortController();
  const ring = (): void => {
    const rung = controller;
    controller = new AbortController();
    // Without a reason Node would create an error with a stack for each job, which takes 20 µs.
    rung.abort('rung');
  };
  noMore.addEventListener('abort', ring, { once: true });
  return {
    /** Aborted at the next ring; ask for it before looking for work, not after. */
    next: (): AbortSignal => controller.signal,
    ring,
  };
}

/**
 * Records which executors of a worker are running a job. The end of a job may bring others, such as its children, so no
 * executor leaves before it.
 *
 * @param onRest called when the last executor has ended its job and taken no other
 */
export function createActiveExecutors(onRest: () => void, now = () => performance.now()) {
  const busy = new Set<object>();
  let restSince = now();
  return {
    begin: (executor: object): void => void busy.add(executor),
    /** Does nothing if the executor had no job. */
    end: (executor: object): void => {
      if (!busy.delete(executor) || busy.size > 0) return;
      restSince = now();
      onRest();
    },
    /** How much of this time is left without a job in any executor; infinite while one runs. */
    leftMs: (restMs: number): number => (busy.size > 0 ? Number.POSITIVE_INFINITY : restSince + restMs - now()),
  };
}
