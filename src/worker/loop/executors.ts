import { type Handlers, openHandlers } from '../../discovery/handlers.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { createHandlerRunner } from '../../execution/warm/run.ts';
import { readTreeUsage } from '../../process/tree.ts';
import { LEASE_GRACE_MS } from '../../queue/claim/leases.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import type { ChangeWatch } from '../../store/contract.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import {
  type ClaimedJob,
  createQueueRecorder,
  type HandledRun,
  idleTurn,
  type Turn,
} from '../record/queue-recorder.ts';
import { type LeaseHeartbeat, startHeartbeat } from './lease-heartbeat.ts';
import { waitForRoom } from './limits.ts';
import {
  createFileWatch,
  createPace,
  createWorkLimits,
  type WorkLimits,
  type WorkRequest,
} from './queue-limits.ts';
import { type HandlerExecutor, runHandler } from './run-handler.ts';
import { createSelector } from './selection.ts';

/** All that a worker works with, until it is closed. */
interface Executors {
  readonly executors: readonly Executor[];
  close(): void;
}

/** How often is looked at what is too dear to be looked at for each job. */
const LOOK_MS = 1_000;

/** One executor for each job at the same time. */
export async function createExecutors(
  call: StoreInvocation,
  request: WorkRequest,
  workerId: number,
  keep: (end: RunEnd) => void,
): Promise<Executors> {
  const { runner, store, events } = call;
  const { groupLimit, childJobs, childMemoryBytes } = runner.settings.queue;
  const watch = store.watch();
  const handlers = await openHandlers(runner.root, runner.settings);
  if (handlers.problem !== null) events.emit('problem', handlers.problem);
  const version = () => watch.look();
  const selector = createSelector({ handlers, request, groupLimit, version });
  const wake = createWakeSignal(call.stop.noMore);
  const heartbeat = startHeartbeat(call, {
    workerId,
    policyOfName: (name) => policyOf(findOptions(handlers, name)),
    onTakenBack: wake.ring,
  });
  const work = limitWork(call, request);
  const pace = createPace(call, request);
  const ticker = setInterval(work.look, LOOK_MS).unref();
  const shared: Omit<Executor, 'runner' | 'ahead' | 'admit' | 'leave'> = {
    ...{ call, watch, wake, heartbeat, work },
    active: createActiveExecutors(wake.ring),
    recorder: createQueueRecorder({
      ...{ store, workerId, runner, handlers, selector },
      onRefused: (sentence) => events.emit('warning', sentence),
    }),
    ...limitsOf(call, request),
    waitMs: request.waitMs ?? Number.POSITIVE_INFINITY,
    onSettled: ({ claimed, end }, { decision, runId }) => {
      const { claim, script } = claimed;
      const nextTryAt = decision?.state === 'retrying' ? decision.runAt : null;
      pace.note(end.durationMs ?? 0);
      keep(end);
      const run = { key: claim.token, runId, jobId: claim.id, script, end, nextTryAt };
      events.emit('run-finished', run);
    },
  };
  return {
    executors: Array.from({ length: request.concurrency }, (_, index) => ({
      ...shared,
      runner: createHandlerRunner({ childJobs, childMemoryBytes }),
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

function findOptions(handlers: Handlers, name: string) {
  return handlers.find(name)?.options;
}

function limitWork({ stop }: StoreInvocation, request: WorkRequest): WorkLimits {
  return createWorkLimits({
    request,
    stop,
    files: createFileWatch(request.watchedFiles),
    startedAt: performance.now(),
    readMemoryBytes: () => readTreeUsage(process.pid)?.rssBytes ?? process.memoryUsage.rss(),
  });
}

/** Who waits for jobs waits as long for room; who does not, as long as a script would. */
function limitsOf({ runner }: StoreInvocation, { maxLoad, waitMs, isAdaptive }: WorkRequest) {
  const { settings } = runner;
  const limits = {
    ...settings.limits,
    maxLoad: maxLoad ?? settings.limits.maxLoad,
    maxWaitMs: Math.max(settings.limits.maxWaitMs, waitMs ?? Number.POSITIVE_INFINITY),
  };
  const { minFreeMemoryBytes, maxProcesses } = limits;
  const isLimited = [limits.maxLoad, minFreeMemoryBytes, maxProcesses].some(
    (each) => each !== null,
  );
  return { limits, isHeldBack: isLimited || isAdaptive };
}

/** What the executors of a worker share, and what each has of its own. */
export interface Executor extends HandlerExecutor {
  readonly watch: ChangeWatch;
  readonly wake: WakeSignal;
  readonly heartbeat: LeaseHeartbeat;
  readonly active: ActiveExecutors;
  readonly work: WorkLimits;
  readonly ahead: ClaimAhead;
  readonly limits: Limits;
  /** Whether it may have to wait before it takes a job, though one is due. */
  readonly isHeldBack: boolean;
  /** How long it waits for a job when none is due. */
  readonly waitMs: number;
  /** Settles when this one may take a job, as fewer are to run at the same time; false: it is not needed. */
  readonly admit: () => Promise<boolean>;
  /** To be called when it takes no more. */
  readonly leave: () => void;
  /** Told of each run once its end cannot be lost any more. */
  readonly onSettled: (ended: HandledRun, settled: Settled) => void;
}

type Limits = Parameters<typeof waitForRoom>[0];

/** Some jobs after the others, until no more is to be taken. The end of some and the claim of the next are one. */
export async function runExecutor(executor: Executor): Promise<void> {
  let ended: readonly HandledRun[] = [];
  for (;;) {
    const seen = { version: executor.watch.look(), rung: executor.wake.next() };
    const turn = await takeTurn(executor, ended);
    ended = [];
    if (turn.next.length > 0) ended = await runClaimed(executor, turn.next, seen.version);
    else if (turn === idleTurn && !(await idle(executor, seen))) {
      // Else somebody was sooner, or what came first was to fail at once: there may be others.
      return executor.leave();
    }
  }
}

/**
 * Runs what was claimed, one after the other. As long as that is short and plain, several ends are settled with
 * one commit; what was claimed ahead is given back as soon as somebody else could begin it sooner.
 *
 * @returns what is not settled yet
 */
async function runClaimed(
  executor: Executor,
  claimed: readonly ClaimedJob[],
  claimedAtVersion: number,
): Promise<readonly HandledRun[]> {
  const { watch, active, heartbeat, call, recorder, ahead } = executor;
  let waiting = [...claimed];
  let ended: HandledRun[] = [];
  let version = claimedAtVersion;
  const settleEnded = async (): Promise<void> => {
    const settling = ended;
    ended = [];
    if (settling.length > 0) await settle(executor, settling);
  };
  const giveBack = async (): Promise<void> => {
    const claims = waiting.map(({ claim }) => claim);
    waiting = [];
    if (claims.length === 0) return;
    await recorder.release(claims);
    executor.wake.ring();
  };
  watch.found();
  active.begin(executor);
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    heartbeat.note(next.job.lease_ms);
    call.events.emit('run-started', { key: next.claim.token, script: next.script });
    const run = await runHandler(executor, next, {
      isSettled: ended.length === 0,
      onLasting: async () => {
        await giveBack();
        await settleEnded();
      },
    });
    ahead.note(run.end);
    ended.push(run);
    if (waiting.length === 0) break;
    if (call.stop.reason !== null) await giveBack();
    else if (!isPlain(run)) await settleEnded();
    const now = watch.look();
    if (now !== version && waiting.length > 0) waiting = await recorder.keepHeld(waiting);
    version = now;
  }
  return ended;
}

/** What it has printed, and why it failed, is to be in the log before the next one begins. */
function isPlain({ end }: HandledRun): boolean {
  return end.outcome === 'succeeded' && (end.output.bytes ?? 0) === 0;
}

async function takeTurn(executor: Executor, ended: readonly HandledRun[]): Promise<Turn> {
  if (ended.length > 0 && executor.isHeldBack) {
    // What has ended waits for nothing.
    await settle(executor, ended);
    executor.active.end(executor);
    return await takeTurn(executor, []);
  }
  const { work, recorder, active, ahead } = executor;
  const isAdmitted = (await executor.admit()) && (await hasRoom(executor));
  const wanted = isAdmitted ? work.reserve(ahead.window()) : 0;
  if (wanted === 0) {
    if (ended.length > 0) await settle(executor, ended);
    active.end(executor);
    return idleTurn;
  }
  const turn = await recorder.turn(ended, wanted);
  work.settle(wanted, turn.next.length);
  notifyEnds(executor, ended, turn.settled);
  if (turn.next.length === 0) active.end(executor);
  return turn;
}

async function settle(executor: Executor, ended: readonly HandledRun[]): Promise<void> {
  const { settled } = await executor.recorder.turn(ended, 0);
  notifyEnds(executor, ended, settled);
}

function notifyEnds(
  executor: Executor,
  ended: readonly HandledRun[],
  settled: readonly Settled[],
): void {
  if (ended.length === 0) return;
  const { runner, call, wake, onSettled } = executor;
  wake.ring();
  call.store.onDurable(() => {
    for (const [index, run] of ended.entries()) {
      runner.removeFiles(call.runner.state, run.claimed.claim.token);
      onSettled(run, settled[index] ?? { decision: null, runId: null });
    }
  });
}

/** How many jobs are claimed at once. */
interface ClaimAhead {
  window(): number;
  note(end: RunEnd): void;
}

const MOST_AHEAD = 16;

/** What is claimed together is to be done within this: nobody else can begin it meanwhile. */
const LONGEST_AHEAD_MS = 40;

/** Only as long as jobs are known to be short, and hold no place that others wait for. */
function createClaimAhead({ runner }: StoreInvocation): ClaimAhead {
  const isAlone = runner.settings.queue.groupLimit !== null;
  let usualMs: number | null = null;
  return {
    window: () => {
      if (isAlone || usualMs === null) return 1;
      return Math.max(1, Math.min(MOST_AHEAD, Math.floor(LONGEST_AHEAD_MS / Math.max(usualMs, 1))));
    },
    note: ({ durationMs }) => {
      if (durationMs === null) usualMs = null;
      // One that lasts is remembered for a while: a rare one must not be forgotten between two.
      else usualMs = Math.max(durationMs, 0.9 * (usualMs ?? 0));
    },
  };
}

/** A full machine is waited for as long as the limits say, if there is something to take; then the rest is left. */
async function hasRoom(executor: Executor): Promise<boolean> {
  const { call, recorder, limits, isHeldBack, work } = executor;
  const { stop, events } = call;
  const note = (sentence: string) => events.emit('warning', sentence);
  if (!isHeldBack) return true;
  if (work.leftMs() <= 0 || !(await recorder.isAnyDue())) return false;
  const lack = await waitForRoom(limits, stop.noMore, { note, leftMs: work.leftMs() });
  if (lack === null) return true;
  if (stop.reason === null) events.emit('deferred', lack);
  stop.startNothing(lack);
  return false;
}

/** What there was before it was looked for work. */
interface Seen {
  readonly version: number;
  readonly rung: AbortSignal;
}

/** Waits until there may be something to do; false: nothing will come in time. */
async function idle(executor: Executor, seen: Seen): Promise<boolean> {
  const { call, watch, waitMs, active, work } = executor;
  await call.store.sync();
  if (call.stop.reason !== null) return false;
  // Since it has looked, something has ended: who does not wait looks once more, too.
  if (seen.rung.aborted) return true;
  const leftMs = Math.min(active.leftMs(waitMs), work.leftMs());
  if (leftMs <= 0) return false;
  const at = call.runner.now();
  const untilMs = Math.min(at + leftMs, await findNextLook(call, at));
  const until = Number.isFinite(untilMs) ? untilMs : null;
  await watch.changed(seen.version, until, seen.rung);
  return call.stop.reason === null;
}

/** How soon a handler is found that was not there yet when its job was due. */
const HANDLER_LOOK_MS = 2_000;

/** When there may be something to take, though nobody changes the log; infinite: never. */
async function findNextLook({ store }: StoreInvocation, at: number): Promise<number> {
  const wakeAt = (await store.claims.nextWake(at, LEASE_GRACE_MS)) ?? Number.POSITIVE_INFINITY;
  // What is due and was not taken may wait for its handler: nobody tells when that appears.
  return (await store.claims.hasDue(at)) ? Math.min(wakeAt, at + HANDLER_LOOK_MS) : wakeAt;
}

/**
 * Wakes the executors of a worker that have nothing to do: the log's watch tells them only of what others have
 * written, and an end may free a group, release children, or set a retry.
 */
interface WakeSignal {
  /** Aborted when it rings next; to be asked for before looking for work, not after it. */
  next(): AbortSignal;
  ring(): void;
}

/** @param noMore rings, too: nobody is to wait then */
export function createWakeSignal(noMore: AbortSignal): WakeSignal {
  let controller = new AbortController();
  const ring = (): void => {
    const rung = controller;
    controller = new AbortController();
    // Without a reason Node makes an error with a stack for each job: 20 µs.
    rung.abort('rung');
  };
  noMore.addEventListener('abort', ring, { once: true });
  return { next: () => controller.signal, ring };
}

/**
 * Which executors of a worker have a job in hand: its end may bring others, such as its children, so none of
 * the executors leaves before it.
 */
interface ActiveExecutors {
  begin(executor: object): void;
  /** Nothing happens if it had none. */
  end(executor: object): void;
  /** How much is left of this time without a job in any executor; infinite while there is one. */
  leftMs(restMs: number): number;
}

/** @param onRest told when the last one has ended its job and has taken no other */
export function createActiveExecutors(
  onRest: () => void,
  now = () => performance.now(),
): ActiveExecutors {
  const busy = new Set<object>();
  let restSince = now();
  return {
    begin: (executor) => void busy.add(executor),
    end: (executor) => {
      if (!busy.delete(executor) || busy.size > 0) return;
      restSince = now();
      onRest();
    },
    leftMs: (restMs) => (busy.size > 0 ? Number.POSITIVE_INFINITY : restSince + restMs - now()),
  };
}
