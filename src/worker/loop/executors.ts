import { openHandlers } from '../../discovery/handlers.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { createHandlerRunner, type HandlerRunner } from '../../execution/warm/run.ts';
import { readTreeUsage } from '../../process/tree.ts';
import { hasDueJob, selectNextWake } from '../../queue/claim/waiting.ts';
import type { Verdict } from '../../queue/settle/retry-policy.ts';
import { type LogWatch, watchLog } from '../../store/sqlite/change-feed.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { createGroupCommit, type GroupCommit } from '../record/group-commit.ts';
import {
  createQueueJournal,
  type HandledRun,
  idleTurn,
  type Turn,
} from '../record/queue-recorder.ts';
import { keepLeases, type LeaseKeeper } from './lease-heartbeat.ts';
import { waitForRoom } from './limits.ts';
import {
  createFileWatch,
  createPace,
  createTakeRules,
  type TakeRules,
  type WorkRequest,
} from './queue-limits.ts';
import { type HandlerLane, runHandler } from './run-handler.ts';
import { createSelector } from './selection.ts';

/** All that a worker works with, until it is closed. */
interface Lanes {
  readonly lanes: readonly Lane[];
  readonly commit: GroupCommit;
  close(): void;
}

/** How often is looked at what is too dear to be looked at for each job. */
const LOOK_MS = 1_000;

/** One lane for each job at the same time. */
export async function createLanes(
  call: StoreInvocation,
  request: WorkRequest,
  workerId: number,
  keep: (end: RunEnd) => void,
): Promise<Lanes> {
  const { runner, store, events } = call;
  const { childJobs, childMemoryBytes } = runner.settings.queue;
  const commit = createGroupCommit(store, workerId);
  const watch = watchLog(runner.state, store);
  const handlers = await openHandlers(runner.root, runner.settings);
  if (handlers.problem !== null) events.emit('trouble', handlers.problem);
  const { groupLimit } = runner.settings.queue;
  const version = () => watch.look();
  const selector = createSelector({ db: store.db, handlers, request, groupLimit, version });
  const bell = createLaneBell(call.stop.noMore);
  const leases = keepLeases(call, workerId, bell.ring);
  const rules = rulesOf(call, request);
  const pace = createPace(call, request);
  const ticker = setInterval(rules.look, LOOK_MS).unref();
  const shared: Omit<Lane, 'runner' | 'admit' | 'leave'> = {
    ...{ call, watch, bell, commit, leases, rules },
    atWork: createLanesAtWork(bell.ring),
    journal: createQueueJournal({
      ...{ store, workerId, runner, handlers, selector, commit },
      onRefused: (sentence) => events.emit('warning', sentence),
    }),
    findHandler: handlers.find,
    ...limitsOf(call, request),
    waitMs: request.waitMs ?? Number.POSITIVE_INFINITY,
    onEnded: ({ claim, end, script }, verdict) => {
      const nextTryAt = verdict?.state === 'retrying' ? verdict.runAt : null;
      pace.note(end.durationMs ?? 0);
      keep(end);
      events.emit('run-finished', { runId: claim.runId, jobId: claim.id, script, end, nextTryAt });
    },
  };
  return {
    lanes: Array.from({ length: request.concurrency }, (_, index) => ({
      ...shared,
      runner: createHandlerRunner({ childJobs, childMemoryBytes }),
      admit: () => pace.admit(index),
      leave: () => pace.leave(index),
    })),
    commit,
    close: () => {
      clearInterval(ticker);
      leases.stop();
      watch.close();
    },
  };
}

function rulesOf({ stop }: StoreInvocation, request: WorkRequest) {
  return createTakeRules({
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

/** What the lanes of a worker share, and what each has of its own. */
export interface Lane extends HandlerLane {
  readonly watch: LogWatch;
  readonly bell: LaneBell;
  readonly commit: GroupCommit;
  readonly leases: LeaseKeeper;
  readonly atWork: LanesAtWork;
  readonly rules: TakeRules;
  readonly limits: Limits;
  /** Whether it may have to wait before it takes a job, though one is due. */
  readonly isHeldBack: boolean;
  /** How long it waits for a job when none is due. */
  readonly waitMs: number;
  /** Settles when this lane may take a job, as fewer are to run at the same time; false: it is not needed. */
  readonly admit: () => Promise<boolean>;
  /** To be called when it takes no more. */
  readonly leave: () => void;
  /** Told of each run once its end cannot be lost any more. */
  readonly onEnded: (ended: NamedEnd, verdict: Verdict | null) => void;
}

type Limits = Parameters<typeof waitForRoom>[0];

/** One job after the other, until no more is to be taken. The end of one and the claim of the next are one. */
export async function runLane(lane: Lane): Promise<void> {
  let ended: NamedEnd | null = null;
  for (;;) {
    const seen = { version: lane.watch.look(), rung: lane.bell.next() };
    const turn = await takeTurn(lane, ended);
    const { next } = turn;
    ended = null;
    if (next !== null) {
      lane.watch.found();
      lane.atWork.begin(lane);
      const script = `queue/${next.job.name}`;
      lane.leases.note(next.job.lease_ms);
      lane.call.events.emit('run-started', { runId: next.claim.runId, script });
      ended = { script, ...(await runHandler(lane, next)) };
    } else if (turn === idleTurn && !(await idle(lane, seen))) {
      // Else somebody was sooner, or what came first was fused: there may be others.
      return lane.leave();
    }
  }
}

interface NamedEnd extends HandledRun {
  readonly script: string;
}

async function takeTurn(lane: Lane, ended: NamedEnd | null): Promise<Turn> {
  if (ended !== null && lane.isHeldBack) {
    // What has ended waits for nothing.
    await end(lane, ended);
    return await takeTurn(lane, null);
  }
  if (!(await lane.admit()) || !(await hasRoom(lane)) || !lane.rules.mayTake()) {
    if (ended !== null) await end(lane, ended);
    return idleTurn;
  }
  const turn = await lane.journal.turn(ended, childOf(lane.runner));
  lane.rules.settle(turn.next !== null);
  if (ended !== null) tellEnd(lane, ended, turn.verdict);
  if (turn.next === null) lane.atWork.end(lane);
  return turn;
}

async function end(lane: Lane, ended: NamedEnd): Promise<void> {
  tellEnd(lane, ended, await lane.journal.end(ended));
  lane.atWork.end(lane);
}

function childOf({ pid, startTicks }: HandlerRunner) {
  return pid === null ? null : { pid, startTicks };
}

function tellEnd(lane: Lane, ended: NamedEnd, verdict: Verdict | null): void {
  const { runner, call, commit, bell, onEnded } = lane;
  bell.ring();
  runner.removeFiles(call.runner.state, ended.claim.runId);
  commit.onDurable(() => onEnded(ended, verdict));
}

/** A full machine is waited for as long as the limits say, if there is something to take; then the rest is left. */
async function hasRoom({ call, journal, limits, isHeldBack, rules }: Lane): Promise<boolean> {
  const { stop, events } = call;
  const note = (sentence: string) => events.emit('warning', sentence);
  if (!isHeldBack) return true;
  if (rules.leftMs() <= 0 || !(await journal.isAnyDue())) return false;
  const lack = await waitForRoom(limits, stop.noMore, { note, leftMs: rules.leftMs() });
  if (lack === null) return true;
  if (stop.reason === null) events.emit('left', lack);
  stop.startNothing(lack);
  return false;
}

/** What there was before it was looked for work. */
interface Seen {
  readonly version: number;
  readonly rung: AbortSignal;
}

/** Waits until there may be something to do; false: nothing will come in time. */
async function idle(lane: Lane, seen: Seen): Promise<boolean> {
  const { call, commit, watch, waitMs, atWork, rules } = lane;
  await commit.sync();
  if (call.stop.reason !== null) return false;
  // Since it has looked, something has ended: who does not wait looks once more, too.
  if (seen.rung.aborted) return true;
  const leftMs = Math.min(atWork.leftMs(waitMs), rules.leftMs());
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
async function findNextLook({ store: { db } }: StoreInvocation, at: number): Promise<number> {
  const wakeAt = (await selectNextWake(db, at)) ?? Number.POSITIVE_INFINITY;
  // What is due and was not taken may wait for its handler: nobody tells when that appears.
  return (await hasDueJob(db, at)) ? Math.min(wakeAt, at + HANDLER_LOOK_MS) : wakeAt;
}

/**
 * Wakes the lanes of a worker that have nothing to do: the log's watch tells them only of what others have
 * written, and an end may free a group, release children, or set a retry.
 */
interface LaneBell {
  /** Aborted when it rings next; to be asked for before looking for work, not after it. */
  next(): AbortSignal;
  ring(): void;
}

/** @param noMore rings, too: nobody is to wait then */
export function createLaneBell(noMore: AbortSignal): LaneBell {
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
 * Which lanes of a worker have a job in hand: its end may bring others, such as its children, so none of
 * the lanes leaves before it.
 */
interface LanesAtWork {
  begin(lane: object): void;
  /** Nothing happens if it had none. */
  end(lane: object): void;
  /** How much is left of this time without a job in any lane; infinite while there is one. */
  leftMs(restMs: number): number;
}

/** @param onRest told when the last one has ended its job and has taken no other */
export function createLanesAtWork(onRest: () => void, now = () => performance.now()): LanesAtWork {
  const busy = new Set<object>();
  let restSince = now();
  return {
    begin: (lane) => void busy.add(lane),
    end: (lane) => {
      if (!busy.delete(lane) || busy.size > 0) return;
      restSince = now();
      onRest();
    },
    leftMs: (restMs) => (busy.size > 0 ? Number.POSITIVE_INFINITY : restSince + restMs - now()),
  };
}
