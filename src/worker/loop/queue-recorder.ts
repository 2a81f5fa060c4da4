import type { Handlers } from '../../discovery/handlers.ts';
import { withoutParameters } from '../../discovery/script.ts';
import {
  acceptClaimed,
  claimJobs,
  isAccepted,
  type QueueClaim,
  type QueueSelection,
  selectionOf,
} from '../../queue/claim/claim.ts';
import { pausedPatterns } from '../../queue/pauses.ts';
import { findJob } from '../../queue/read/jobs.ts';
import {
  areUneventful,
  asFinished,
  type RunToSettle,
  type SettleContext,
  type Settled,
} from '../../queue/settle/settle.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import { isRefusal } from '../../store/failures.ts';
import type { ClaimedRow } from '../../store/statements/claims.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { ClaimRef } from '../../store/statements/runs.ts';
import type { StoreSession } from '../../store/store.ts';
import { matchAny } from '../../system/base/glob.ts';
import type { WorkRequest } from './queue-limits.ts';
import { type Attempt, type ClaimedRun, type EndedRun, LogRecorder, type Recording, type Turn } from './recorder.ts';

/** A claimed job of the queue. */
export interface HandlerRun extends ClaimedRun<ClaimedRow> {
  readonly claim: ClaimRef;
}

/** A turn with nothing to settle and nothing to take. */
export const idleTurn: Turn<HandlerRun> = { settled: [], next: [] };

/** How many jobs a turn takes, and those that it has claimed before its transaction. */
interface WantedJobs {
  readonly count: number;
  readonly claimed: readonly ClaimedRow[];
}

/** The part of a turn that was done before any other step. */
interface BegunTurn {
  readonly finished: ReadonlyMap<RunToSettle, Settled>;
  readonly claimed: readonly ClaimedRow[];
  /** Whether the claimed jobs need no further step. */
  readonly isWhole: boolean;
}

const notBegun: BegunTurn = { finished: new Map(), claimed: [], isWhole: false };

/** How long after a recorded success of a script no other one is recorded, in milliseconds. */
const CALM_FOR_MS = 1_000;

interface QueueRecording extends Recording {
  readonly handlers: Handlers;
  readonly selector: Selector;
}

/** Records the runs of a queue worker. */
export class QueueRecorder extends LogRecorder<HandlerRun, WantedJobs> {
  readonly #handlers: Handlers;
  readonly #selector: Selector;
  /** Scripts whose success is recorded. */
  readonly #calm = new Set<string>();
  #calmUntil = 0;

  constructor({ handlers, selector, ...recording }: QueueRecording) {
    super(recording);
    this.#handlers = handlers;
    this.#selector = selector;
  }

  /** Whether there is a job to take if there is room. */
  async isAnyDue(): Promise<boolean> {
    const { store, runner } = this.recording;
    const at = runner.now();
    return (await store.claims.next(await this.#selector.select(at, store), at)) !== null;
  }

  /** Settles the ended runs and claims the next jobs, up to `wanted`, in one commit. */
  async turn(ended: readonly EndedRun<HandlerRun>[], wanted: number): Promise<Turn<HandlerRun>> {
    // A transaction without work would still be a commit, and wake all others that wait.
    if (ended.length === 0 && (wanted === 0 || !(await this.isAnyDue()))) return idleTurn;
    const runs = ended.map((run) => this.toSettle(run));
    const { finished, claimed, isWhole } = await this.#turnAtOnce(runs, wanted);
    const others = runs.filter((run) => !finished.has(run));
    if (isWhole && others.length === 0) {
      return { settled: runs.map((run) => finished.get(run) as Settled), next: this.#describe(claimed) };
    }
    const { settled, next } = await this.settleAndClaim(others, wanted === 0 ? null : { count: wanted, claimed });
    this.#noteCalm(others);
    const left = settled.values();
    return { settled: runs.map((run) => finished.get(run) ?? (left.next().value as Settled)), next };
  }

  /** Does what a server can do in one round trip with its commit: usually everything. */
  async #turnAtOnce(runs: readonly RunToSettle[], wanted: number): Promise<BegunTurn> {
    const { store } = this.recording;
    const mayFollow = runs.length === 0 || wanted === 0 || !areUneventful(runs, this.context(this.newAttempt()));
    if (store.turn === undefined || mayFollow) return notBegun;
    const claim = await this.#claimOf(wanted, store);
    const turn = await store.turn(runs.map(asFinished), claim).catch((error) => {
      if (!isRefusal(error)) throw error;
      // The server has refused one run and undone all; single steps find out which one.
      return null;
    });
    if (turn === null) return notBegun;
    const finished = new Map<RunToSettle, Settled>();
    for (const [index, run] of runs.entries()) {
      const runId = turn.runIds[index] ?? null;
      if (runId !== null) finished.set(run, { decision: { state: 'finished' }, runId });
    }
    const { claimed } = turn;
    return { finished, claimed, isWhole: claimed.length > 0 && claimed.every((job) => isAccepted(job, claim)) };
  }

  /** Also returns those of the jobs claimed before that may run. */
  protected async claim(
    session: StoreSession,
    { count, claimed }: WantedJobs,
    { unbegun }: Attempt,
  ): Promise<readonly HandlerRun[]> {
    const claim = { ...(await this.#claimOf(count, session)), unbegun };
    const kept = claimed.length === 0 ? [] : await acceptClaimed(session, claimed, claim);
    const missing = count - kept.length;
    const more = missing === 0 ? [] : await claimJobs(session, { ...claim, count: missing });
    return this.#describe([...kept, ...more]);
  }

  async #claimOf(count: number, session: StoreSession): Promise<QueueClaim> {
    const { runner } = this.recording;
    const { leaseMs: defaultLeaseMs, missedCap } = runner.settings.queue;
    const at = runner.now();
    return {
      ...{ selection: await this.#selector.select(at, session), count, at, newToken: () => this.newToken() },
      ...{ leaseMs: null, defaultLeaseMs, state: 'claimed' as const, missedCap },
    };
  }

  /** A run belongs to its handler, whatever parameters the name of its job contains. */
  #describe(jobs: readonly ClaimedRow[]): HandlerRun[] {
    const { state } = this.recording.runner;
    return jobs.map((job) => {
      const script = this.#handlers.find(job.name);
      const claim = { id: job.id, token: job.claim_token };
      const timeoutMs = script?.options.timeoutMs ?? defaultTimeoutMs('queue');
      const name = `queue/${withoutParameters(job.name)}`;
      const attempt = job.attempts + 1;
      const contentHash = script?.contentHash ?? null;
      const dueAt = job.scheduled_for;
      return { job, key: claim.token, claim, state, name, script, contentHash, attempt, dueAt, timeoutMs };
    });
  }

  protected override toSettle(ended: EndedRun<HandlerRun>): RunToSettle {
    const isShared = this.recording.store.fleet !== null;
    return { ...super.toSettle(ended), ...(isShared && { claimed: ended.run.job }) };
  }

  protected override context(attempt: Attempt): SettleContext {
    return { ...super.context(attempt), ...(performance.now() < this.#calmUntil && { calm: this.#calm }) };
  }

  /** On a server, a look for open incidents of a script costs as much as a run. */
  #noteCalm(runs: readonly RunToSettle[]): void {
    if (this.recording.store.fleet === null) return;
    if (performance.now() >= this.#calmUntil) {
      this.#calm.clear();
      this.#calmUntil = performance.now() + CALM_FOR_MS;
    }
    for (const { start, end } of runs) {
      if (end.outcome === 'succeeded' && end.suspect === 0) this.#calm.add(start.script);
      else this.#calm.delete(start.script);
    }
  }

  /** Returns those jobs claimed ahead that may still begin after others have changed the log; gives the others back. */
  async keepHeld(runs: readonly HandlerRun[]): Promise<HandlerRun[]> {
    const { store, runner } = this.recording;
    const rows = await store.claims.held(runs.map(({ claim }) => claim));
    const held = new Set(rows.map(({ claim_token }) => claim_token));
    const { isWanted, failsFast } = await this.#selector.select(runner.now(), store);
    const kept = runs.filter(({ key, job: { name } }) => held.has(key) && isWanted(name) && !failsFast(name));
    await this.release(runs.filter((each) => !kept.includes(each)));
    return kept;
  }

  /**
   * Replaces the job's data at its handler's request.
   *
   * @throws {QueueError} if the claim is no longer valid
   */
  async update({ id, token }: ClaimRef, data: string): Promise<void> {
    const { store, runner } = this.recording;
    if (await store.jobs.updateData(id, token, data)) return;
    // The handler works in vain; the refusal says why.
    const askedAt = runner.now();
    await store.transaction((session) => findJob({ ...session, askedAt }, { id, token }));
  }
}

/** Selects the jobs that a worker takes, by the present pauses and handlers. */
interface Selector {
  /**
   * Call it before each claim.
   *
   * @param session the session of the claim's transaction, so that pauses set during the wait for the log's lock count
   */
  select(at: number, session: StoreSession): Promise<QueueSelection>;
}

interface Selecting {
  readonly handlers: Handlers;
  readonly request: Pick<WorkRequest, 'patterns' | 'failsUnknown'>;
  readonly groupLimit: number | null;
  /** Changes with every change of the log by others. */
  readonly version: () => number;
}

/** The pauses as they were read, and how long they are valid. */
interface Known {
  readonly version: number;
  /** Outside of this time the pauses differ: the clock was set back, or a pause has ended by itself. */
  readonly from: number;
  readonly until: number;
  readonly selection: QueueSelection;
}

/** A pause takes effect at once: pauses are read again whenever anybody has changed the log. */
export function createSelector({ handlers, request, groupLimit, version }: Selecting): Selector {
  let known: Known | null = null;
  const isAsked = (name: string): boolean => request.patterns.length === 0 || matchAny(request.patterns, name);
  const build = (pauses: readonly Pause[]): QueueSelection => {
    const { failFast } = pausedPatterns(pauses);
    const isHandled = (name: string): boolean =>
      request.failsUnknown || handlers.find(name) !== null || matchAny(failFast, name);
    const isWanted = (name: string): boolean => isAsked(name) && isHandled(name);
    return selectionOf(isWanted, pauses, groupLimit);
  };
  return {
    select: async (at, session) => {
      const seen = version();
      if (known?.version !== seen || at < known.from || at >= known.until) {
        const pauses = await session.pauses.inForce(at);
        const ends = pauses.flatMap(({ until }) => until ?? []);
        const until = Math.min(...ends, Number.POSITIVE_INFINITY);
        known = { version: seen, from: at, until, selection: build(pauses) };
      }
      return known.selection;
    },
  };
}
