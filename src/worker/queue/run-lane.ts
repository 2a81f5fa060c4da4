import type { HandlerRunner } from '../../execution/handler-runner.ts';
import { selectNextWake } from '../../queue/next-wake.ts';
import type { Verdict } from '../../queue/retry-policy.ts';
import { hasDueJob } from '../../queue/waiting-jobs.ts';
import type { LogWatch } from '../../store/watch-log.ts';
import type { LoggedCall } from '../pass.ts';
import { waitForRoom } from '../wait-for-room.ts';
import type { GroupCommit } from './group-commit.ts';
import type { LeaseKeeper } from './keep-leases.ts';
import type { LaneBell } from './lane-bell.ts';
import type { LanesAtWork } from './lanes-at-work.ts';
import { type EndedRun, idleTurn, type Turn } from './queue-journal.ts';
import { type HandlerLane, runHandler } from './run-handler.ts';
import type { TakeRules } from './take-rules.ts';

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

export interface NamedEnd extends EndedRun {
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
async function findNextLook({ store: { db } }: LoggedCall, at: number): Promise<number> {
  const wakeAt = (await selectNextWake(db, at)) ?? Number.POSITIVE_INFINITY;
  // What is due and was not taken may wait for its handler: nobody tells when that appears.
  return (await hasDueJob(db, at)) ? Math.min(wakeAt, at + HANDLER_LOOK_MS) : wakeAt;
}
