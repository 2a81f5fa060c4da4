import { LEASE_GRACE_MS } from '../../queue/settle/retry-policy.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { type HandledRun, type HeldJob, idleTurn, type Turn } from '../record/queue-recorder.ts';
import { type Executor, isPlain } from './executors.ts';
import { waitForRoom } from './limits.ts';
import { isLikeMost, runHandlers } from './run-job.ts';

/** What an executor has in hand. */
interface Hand {
  /** Claimed, and not begun. */
  readonly waiting: readonly HeldJob[];
  /** Over, and not in the log yet. */
  readonly ended: readonly HandledRun[];
  /** Which version of the log was seen before the claim. */
  readonly version: number;
}

/**
 * Some jobs after the others, until no more is to be taken. The end of some and the claim of the next are one
 * commit, which is made while others run, as long as they are short.
 */
export async function runExecutor(executor: Executor): Promise<void> {
  let hand: Hand = { waiting: [], ended: [], version: Number.NaN };
  for (;;) {
    const seen = { version: executor.watch.look(), rung: executor.wake.next() };
    if (hand.waiting.length > 0) {
      hand = await runWaiting(executor, await keepWaiting(executor, hand, seen.version));
      continue;
    }
    const { ended } = hand;
    hand = { waiting: [], ended: [], version: seen.version };
    const turn = await takeTurn(executor, ended);
    if (turn.next.length > 0) hand = { ...hand, waiting: turn.next };
    else if (turn === idleTurn && !(await idle(executor, seen))) {
      // Else somebody was sooner, or what came first was to fail at once: there may be others.
      return executor.leave();
    }
  }
}

/** What was claimed ahead is given back as soon as it is not to begin any more. */
async function keepWaiting(executor: Executor, hand: Hand, version: number): Promise<Hand> {
  const { call, recorder, work, wake } = executor;
  const { waiting } = hand;
  if (call.stop.reason !== null) {
    await giveBack(executor, waiting);
    return { ...hand, waiting: [] };
  }
  if (version === hand.version) return hand;
  const kept = await recorder.keepHeld(waiting);
  work.settle(waiting.length - kept.length, 0);
  if (kept.length < waiting.length) wake.ring();
  return { ...hand, waiting: kept, version };
}

async function giveBack(executor: Executor, waiting: readonly HeldJob[]): Promise<void> {
  if (waiting.length === 0) return;
  await executor.recorder.release(waiting.map(({ claim }) => claim));
  executor.work.settle(waiting.length, 0);
  executor.wake.ring();
}

/**
 * Runs the first of what waits, as many as can be run together, and meanwhile settles what has ended before and
 * claims what comes after. What has printed anything, or failed, is in the log before the next one begins.
 */
async function runWaiting(executor: Executor, hand: Hand): Promise<Hand> {
  const { active, ahead, runner, watch, work } = executor;
  if (hand.waiting.length === 0) return hand;
  const { chosen, rest } = choose(hand.waiting, ahead.window());
  watch.found();
  active.begin(executor);
  const others = new ClaimedAhead(executor, rest, hand);
  const running = runChosen(executor, chosen, {
    unsettled: hand.ended.length,
    onLasting: (begun) => others.giveBack(chosen.slice(begun)),
  });
  const isAhead = rest.length === 0 && ahead.window() > 1 && !executor.isHeldBack;
  const taking = isAhead ? others.take() : Promise.resolve();
  // Whatever becomes of the log, what runs comes to its end.
  await Promise.allSettled([running, taking]);
  await taking;
  const ran = await running;
  for (const run of ran) ahead.note(run);
  work.settle(ran.length, ran.length);
  const left = await others.close(chosen.slice(ran.length));
  const ended = [...left.ended, ...ran];
  if (left.waiting.length === 0 || (ran.every(isPlain) && !runner.isWorn)) {
    return { ...left, ended };
  }
  await settle(executor, ended);
  return { ...left, ended: [] };
}

/** Those that can be run together: mostly all of them. What is left of several is run before more is claimed. */
function choose(waiting: readonly HeldJob[], most: number) {
  const other = waiting.findIndex((each) => !isLikeMost(each));
  const count = Math.max(1, Math.min(other === -1 ? waiting.length : other, most));
  return { chosen: waiting.slice(0, count), rest: waiting.slice(count) };
}

async function runChosen(
  { heartbeat, call, ...executor }: Executor,
  chosen: readonly HeldJob[],
  { unsettled, onLasting }: Required<Parameters<typeof runHandlers>[2]>,
): Promise<readonly HandledRun[]> {
  const told = new Set<HeldJob>();
  const tell = (claimed: HeldJob | undefined): void => {
    if (claimed === undefined || told.has(claimed)) return;
    told.add(claimed);
    call.events.emit('run-started', { key: claimed.claim.token, script: claimed.script });
  };
  for (const { job } of chosen) heartbeat.note(job.lease_ms);
  tell(chosen[0]);
  const ran = await runHandlers({ ...executor, call }, chosen, {
    unsettled,
    onLasting: (begun) => {
      tell(chosen[begun - 1]);
      return onLasting(begun);
    },
  });
  for (const run of ran) tell(run.claimed);
  return ran;
}

/** What an executor holds besides what runs: what has ended and is not settled, and what is claimed and waits. */
class ClaimedAhead {
  readonly #executor: Executor;
  #hand: Hand;
  /** What runs has lasted long enough for others to begin all else sooner. */
  #isLasting = false;
  #givenBack: readonly HeldJob[] = [];

  constructor(executor: Executor, waiting: readonly HeldJob[], { ended, version }: Hand) {
    this.#executor = executor;
    this.#hand = { waiting, ended, version };
  }

  /** Settles what has ended, and claims what is next. */
  async take(): Promise<void> {
    const { ended } = this.#hand;
    const version = this.#executor.watch.look();
    this.#hand = { ...this.#hand, ended: [], version };
    const { next } = await settleAndClaim(this.#executor, ended);
    this.#hand = { ...this.#hand, waiting: next };
    if (this.#isLasting) await this.#giveBackAll();
  }

  /** @param unbegun what was to be run with what lasts, and has not begun */
  async giveBack(unbegun: readonly HeldJob[]): Promise<void> {
    this.#isLasting = true;
    this.#givenBack = unbegun;
    await giveBack(this.#executor, unbegun);
    await this.#giveBackAll();
  }

  async #giveBackAll(): Promise<void> {
    const { waiting, ended } = this.#hand;
    this.#hand = { ...this.#hand, waiting: [], ended: [] };
    await giveBack(this.#executor, waiting);
    if (ended.length > 0) await settle(this.#executor, ended);
  }

  /** @param unbegun what was to be run and has not begun: it comes first, unless it was given back */
  async close(unbegun: readonly HeldJob[]): Promise<Hand> {
    const kept = unbegun.filter((each) => !this.#givenBack.includes(each));
    return { ...this.#hand, waiting: [...kept, ...this.#hand.waiting] };
  }
}

async function takeTurn(executor: Executor, ended: readonly HandledRun[]): Promise<Turn> {
  const { active, isHeldBack } = executor;
  // What has ended waits for nothing.
  const isSettled = isHeldBack && ended.length > 0;
  if (isSettled) {
    await settle(executor, ended);
    active.end(executor);
  }
  const turn = await settleAndClaim(executor, isSettled ? [] : ended);
  if (turn.next.length === 0) active.end(executor);
  return turn;
}

async function settleAndClaim(executor: Executor, ended: readonly HandledRun[]): Promise<Turn> {
  const { work, recorder, ahead } = executor;
  const isAdmitted = (await executor.admit()) && (await hasRoom(executor));
  const wanted = isAdmitted ? work.reserve(ahead.window()) : 0;
  if (wanted === 0) {
    if (ended.length > 0) await settle(executor, ended);
    return idleTurn;
  }
  const turn = await recorder.turn(ended, wanted);
  // What is claimed counts once it has run: it may be given back.
  work.settle(wanted - turn.next.length, 0);
  notifyEnds(executor, ended, turn.settled);
  return turn;
}

async function settle(executor: Executor, ended: readonly HandledRun[]): Promise<void> {
  const { settled } = await executor.recorder.turn(ended, 0);
  notifyEnds(executor, ended, settled);
}

function notifyEnds(executor: Executor, ended: readonly HandledRun[], settled: readonly Settled[]): void {
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
