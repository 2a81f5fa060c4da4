import { LEASE_GRACE_MS } from '../../queue/settle/retry-policy.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { type Equipment, isPlain } from './executors.ts';
import { waitForRoom } from './limits.ts';
import type { Executor } from './loop.ts';
import { type HandlerRun, idleTurn } from './queue-recorder.ts';
import type { EndedRun, Turn } from './recorder.ts';
import { isLikeMost, runHandlers } from './run-handlers.ts';

/**
 * Runs jobs of the queue. The ends of some jobs and the claim of the next ones are one commit. While jobs are short, it
 * is made while others run.
 */
export class QueueExecutor implements Executor<readonly HandlerRun[]> {
  readonly #equipment: Equipment;
  /** Claimed, but not begun. */
  #waiting: readonly HandlerRun[] = [];
  /** Ended, but not in the log yet. */
  #ended: readonly EndedRun<HandlerRun>[] = [];
  /** The error of the log, if it did not take the ends. */
  #failure: unknown = null;
  /** The version of the log that was seen before the claim. */
  #version = Number.NaN;
  /** Jobs that were given back because a job before them lasts; null: no job lasts. */
  #givenBack: readonly HandlerRun[] | null = null;

  constructor(equipment: Equipment) {
    this.#equipment = equipment;
  }

  async next(): Promise<readonly HandlerRun[] | null> {
    const { watch, wake, leave, runner, work } = this.#equipment;
    for (;;) {
      work.noticeDeploy();
      const seen = { version: watch.look(), rung: wake.next() };
      if (this.#waiting.length > 0) {
        this.#equipment.call.heartbeat?.mayStart();
        await this.#keepWaiting(seen.version);
        if (this.#waiting.length > 0) return this.#choose();
      } else if ((await this.#takeTurn(seen.version)) === idleTurn && !(await idle(this.#equipment, seen))) {
        leave();
        await runner.close();
        return null;
      }
    }
  }

  /** Gives claims ahead back as soon as they must not begin any more. */
  async #keepWaiting(version: number): Promise<void> {
    const { call, recorder, work, wake } = this.#equipment;
    if (call.stop.reason !== null) return await this.#giveBackWaiting();
    if (version === this.#version) return;
    const kept = await recorder.keepHeld(this.#waiting);
    const lost = this.#waiting.length - kept.length;
    this.#waiting = kept;
    this.#version = version;
    work.settle(lost, 0);
    if (lost > 0) wake.ring();
  }

  /** The next jobs that one handler can run together. The rest runs before more is claimed. */
  #choose(): readonly HandlerRun[] {
    const waiting = this.#waiting;
    const other = waiting.findIndex((each) => !isLikeMost(each) || each.script !== waiting[0]?.script);
    const count = Math.max(1, Math.min(other === -1 ? waiting.length : other, this.#equipment.ahead.window()));
    this.#waiting = waiting.slice(count);
    return waiting.slice(0, count);
  }

  /**
   * An empty turn that is not idle: somebody was faster, or the first jobs had to fail at once. There may be others.
   */
  async #takeTurn(version: number): Promise<Turn<HandlerRun>> {
    const { active, isHeldBack } = this.#equipment;
    // Ended jobs do not wait for room.
    if (isHeldBack && this.#ended.length > 0) {
      await this.#record(0);
      active.end(this);
    }
    const turn = await this.#settleAndClaim(version);
    if (turn.next.length === 0) active.end(this);
    return turn;
  }

  async #settleAndClaim(version: number): Promise<Turn<HandlerRun>> {
    const { admit, ahead, work } = this.#equipment;
    this.#version = version;
    const isAdmitted = (await admit()) && (await hasRoom(this.#equipment));
    const wanted = isAdmitted ? work.reserve(ahead.window()) : 0;
    const turn = await this.#record(wanted);
    this.#waiting = turn.next;
    // A claim counts once its job has run, because it may be given back.
    work.settle(wanted - turn.next.length, 0);
    return wanted === 0 ? idleTurn : turn;
  }

  /**
   * Runs jobs; meanwhile it settles those that ended before, and claims the next ones. A job that has printed anything
   * or failed is in the log before the next one begins.
   */
  async run(chosen: readonly HandlerRun[]): Promise<void> {
    const { active, ahead, isHeldBack, runner, watch, work } = this.#equipment;
    watch.found();
    active.begin(this);
    this.#givenBack = null;
    const running = runChosen(this.#equipment, chosen, {
      unsettled: new Set(this.#ended.map(({ run }) => run.key)),
      onLasting: (begun) => this.#leaveToOthers(chosen.slice(begun)),
    });
    const isAhead = this.#waiting.length === 0 && ahead.window() > 1 && !isHeldBack;
    const taking = isAhead ? this.#takeAhead() : Promise.resolve();
    // Running jobs finish, whatever happens to the log.
    await Promise.allSettled([running, taking]);
    const ran = await running;
    for (const run of ran) ahead.note(run);
    work.settle(ran.length, ran.length);
    const unbegun = chosen.slice(ran.length).filter((each) => !this.#givenBack?.includes(each));
    this.#waiting = [...unbegun, ...this.#waiting];
    this.#ended = [...this.#ended, ...ran];
    await taking;
    const canWait = this.#waiting.length === 0 || (ran.every(isPlain) && !runner.isWorn);
    if (!canWait) await this.#record(0);
  }

  async #takeAhead(): Promise<void> {
    await this.#settleAndClaim(this.#equipment.watch.look());
    if (this.#givenBack !== null) await this.#leaveToOthers(this.#givenBack);
  }

  /** @param unbegun jobs that were to run together with one that lasts, and have not begun */
  async #leaveToOthers(unbegun: readonly HandlerRun[]): Promise<void> {
    const more = unbegun.filter((each) => !this.#givenBack?.includes(each));
    this.#givenBack = unbegun;
    await release(this.#equipment, more);
    await this.#giveBackWaiting();
    await this.#record(0);
  }

  /** Settles the ended jobs, and claims up to `wanted` more in the same commit. */
  async #record(wanted: number): Promise<Turn<HandlerRun>> {
    const ended = this.#ended;
    this.#ended = [];
    const turn = await this.#equipment.recorder.turn(ended, wanted).catch((error) => {
      this.#ended = [...ended, ...this.#ended];
      this.#failure = error;
      throw error;
    });
    notifyEnds(this.#equipment, ended, turn.settled);
    return turn;
  }

  async #giveBackWaiting(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    await release(this.#equipment, waiting);
  }

  async giveBack(): Promise<void> {
    // A child that is still serving writes down its ends for the next invocation.
    this.#equipment.runner.abandon();
    const ended = this.#ended;
    this.#ended = [];
    if (ended.length > 0) await this.#equipment.spool?.(ended, this.#failure);
    await this.#giveBackWaiting();
  }
}

async function release(equipment: Equipment, waiting: readonly HandlerRun[]): Promise<void> {
  if (waiting.length === 0) return;
  await equipment.recorder.release(waiting);
  equipment.work.settle(waiting.length, 0);
  equipment.wake.ring();
}

async function runChosen(
  { heartbeat, call, ...equipment }: Equipment,
  chosen: readonly HandlerRun[],
  { unsettled, onLasting }: Required<Parameters<typeof runHandlers>[2]>,
): Promise<readonly EndedRun<HandlerRun>[]> {
  const told = new Set<HandlerRun>();
  const tell = (run: HandlerRun | undefined): void => {
    if (run === undefined || told.has(run)) return;
    told.add(run);
    call.events.emit('run-started', { key: run.key, script: run.name, output: null });
  };
  for (const { job } of chosen) heartbeat.note(job.lease_ms);
  tell(chosen[0]);
  const ran = await runHandlers({ ...equipment, heartbeat, call }, chosen, {
    unsettled,
    onLasting: (begun) => {
      tell(chosen[begun - 1]);
      return onLasting(begun);
    },
  });
  for (const { run } of ran) tell(run);
  return ran;
}

function notifyEnds(equipment: Equipment, ended: readonly EndedRun<HandlerRun>[], settled: readonly Settled[]): void {
  if (ended.length === 0) return;
  const { runner, call, wake, onSettled } = equipment;
  wake.ring();
  call.store.onDurable((failure) => {
    for (const [index, each] of ended.entries()) {
      // The files stay if the log may lose the ends.
      if (failure === null) runner.removeFiles(each.run.state, each.run.key);
      onSettled(each, settled[index] ?? { decision: null, runId: null });
    }
  });
}

/** Waits for room on a full machine as long as the limits say, if there is a job to take; then leaves the rest. */
async function hasRoom(equipment: Equipment): Promise<boolean> {
  const { call, recorder, limits, isHeldBack, work } = equipment;
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

/** The state of the log and of the wake signal before a look for work. */
interface Seen {
  readonly version: number;
  readonly rung: AbortSignal;
}

/** Waits until there may be work; false: none will come in time. */
async function idle(equipment: Equipment, seen: Seen): Promise<boolean> {
  const { call, watch, waitMs, active, work } = equipment;
  await call.store.sync();
  if (call.stop.reason !== null) return false;
  // A job ended after the last look, so look again, even without waiting.
  if (seen.rung.aborted) return true;
  const leftMs = Math.min(active.leftMs(waitMs), work.leftMs());
  if (leftMs <= 0) return false;
  const at = call.runner.now();
  const untilMs = Math.min(at + leftMs, await findNextLook(call, at));
  const until = Number.isFinite(untilMs) ? untilMs : null;
  await watch.changed(seen.version, until, seen.rung);
  return call.stop.reason === null;
}

/** How soon a missing handler is noticed, if it appears after its job was due. */
const HANDLER_LOOK_MS = 2_000;

/** When there may be a job to take even if nobody changes the log; infinite: never. */
async function findNextLook({ store }: StoreInvocation, at: number): Promise<number> {
  const wakeAt = (await store.claims.nextWake(at, LEASE_GRACE_MS)) ?? Number.POSITIVE_INFINITY;
  // A due job that was not taken may wait for its handler, whose arrival nobody reports.
  return (await store.claims.hasDue(at)) ? Math.min(wakeAt, at + HANDLER_LOOK_MS) : wakeAt;
}
