import type { HandlerRunner } from '../../execution/handler-runner.ts';
import type { Verdict } from '../../queue/retry-policy.ts';
import { selectNextDue } from '../../queue/waiting-jobs.ts';
import type { LogWatch } from '../../store/watch-log.ts';
import { waitForRoom } from '../wait-for-room.ts';
import type { GroupCommit } from './group-commit.ts';
import type { LeaseKeeper } from './keep-leases.ts';
import type { EndedRun, Turn } from './queue-journal.ts';
import { type HandlerLane, runHandler } from './run-handler.ts';
import type { TakeRules } from './take-rules.ts';

/** What the lanes of a worker share, and what each has of its own. */
export interface Lane extends HandlerLane {
  readonly watch: LogWatch;
  readonly commit: GroupCommit;
  readonly leases: LeaseKeeper;
  readonly rules: TakeRules;
  readonly limits: Limits;
  /** Whether it may have to wait before it takes a job, though one is due. */
  readonly isHeldBack: boolean;
  /** How long it waits for a job when none is due. */
  readonly waitMs: number;
  /** Settles when this lane may take a job, as fewer are to run at the same time. */
  readonly admit: () => Promise<void>;
  /** Told of each run once its end cannot be lost any more. */
  readonly onEnded: (ended: NamedEnd, verdict: Verdict | null) => void;
}

type Limits = Parameters<typeof waitForRoom>[0];

/** One job after the other, until no more is to be taken. The end of one and the claim of the next are one. */
export async function runLane(lane: Lane): Promise<void> {
  let ended: NamedEnd | null = null;
  let idleSince = performance.now();
  for (;;) {
    const seen = lane.watch.look();
    const { next } = await takeTurn(lane, ended);
    ended = null;
    if (next !== null) {
      lane.watch.found();
      const script = `queue/${next.job.name}`;
      lane.leases.note(next.job.lease_ms);
      lane.call.events.emit('run-started', { runId: next.claim.runId, script });
      ended = { script, ...(await runHandler(lane, next)) };
      idleSince = performance.now();
    } else if (!(await idle(lane, seen, idleSince))) return;
  }
}

export interface NamedEnd extends EndedRun {
  readonly script: string;
}

const nothing: Turn = { verdict: null, next: null };

async function takeTurn(lane: Lane, ended: NamedEnd | null): Promise<Turn> {
  if (ended !== null && lane.isHeldBack) {
    // What has ended waits for nothing.
    await end(lane, ended);
    return await takeTurn(lane, null);
  }
  await lane.admit();
  if (!(await hasRoom(lane)) || !lane.rules.mayTake()) {
    if (ended !== null) await end(lane, ended);
    return nothing;
  }
  const turn = await lane.journal.turn(ended, childOf(lane.runner));
  if (turn.next === null) lane.rules.giveBack();
  if (ended !== null) tellEnd(lane, ended, turn.verdict);
  return turn;
}

async function end(lane: Lane, ended: NamedEnd): Promise<void> {
  tellEnd(lane, ended, await lane.journal.end(ended));
}

function childOf({ pid, startTicks }: HandlerRunner) {
  return pid === null ? null : { pid, startTicks };
}

function tellEnd(lane: Lane, ended: NamedEnd, verdict: Verdict | null): void {
  const { runner, call, commit, onEnded } = lane;
  runner.removeFiles(call.runner.state, ended.claim.runId);
  commit.onDurable(() => onEnded(ended, verdict));
}

/** A full machine is waited for as long as the worker lives. */
async function hasRoom({ call, limits, rules }: Lane): Promise<boolean> {
  const { stop, events } = call;
  const note = (sentence: string) => events.emit('warning', sentence);
  for (;;) {
    const lack = await waitForRoom(limits, stop.noMore, { note });
    if (lack === null) return true;
    if (stop.reason !== null || rules.leftMs() <= limits.maxWaitMs) return false;
  }
}

/** Waits until there may be something to do; false: nothing will come in time. */
async function idle(lane: Lane, seen: number, idleSince: number): Promise<boolean> {
  const { call, commit, watch, waitMs, rules } = lane;
  await commit.sync();
  if (call.stop.reason !== null) return false;
  const leftMs = Math.min(idleSince + waitMs - performance.now(), rules.leftMs());
  if (leftMs <= 0) return false;
  const at = call.runner.now();
  const nextDue = await selectNextDue(call.store.db, at);
  const untilMs = Math.min(at + leftMs, nextDue ?? Number.POSITIVE_INFINITY);
  const until = Number.isFinite(untilMs) ? untilMs : null;
  return (await watch.changed(seen, until, call.stop.noMore)) !== 'stopped';
}
