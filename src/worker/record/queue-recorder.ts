import type { Handlers } from '../../discovery/handlers.ts';
import { withoutParameters } from '../../discovery/job-name.ts';
import type { Script } from '../../discovery/script.ts';
import { type RunEnd, toFinishedRun } from '../../execution/result/result.ts';
import {
  acceptClaimed,
  beginRun,
  claimJobs,
  isAccepted,
  type QueueClaim,
  releaseClaims,
  type UnbegunJob,
} from '../../queue/claim/claim.ts';
import { beatMs, endExpiredLeases } from '../../queue/claim/leases.ts';
import { findJob } from '../../queue/read/jobs.ts';
import { type Archive, createArchive } from '../../queue/settle/archive.ts';
import { type PolicyOfName, policyOf } from '../../queue/settle/retry-policy.ts';
import {
  arePlain,
  areUneventful,
  asFinished,
  finishPlain,
  type RunToSettle,
  type SettleContext,
  type Settled,
  settleOthers,
  settleRefused,
  settleRuns,
} from '../../queue/settle/settle.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import type { ClaimedRow } from '../../store/contract/jobs.ts';
import type { ClaimRef, RunStart } from '../../store/contract/runs.ts';
import type { Store, StoreSession } from '../../store/contract/store.ts';
import { isRefusal, isStoreFailure } from '../../store/failures.ts';
import { allEnded } from '../../system/base/values.ts';
import { removeOutput } from '../../system/place/state-folder.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { reconcileIfNeeded, reportStoreFailure } from '../invocation/with-store.ts';
import type { Selector } from '../loop/selection.ts';
import { findDeadWorkers } from '../recovery/dead-workers.ts';
import { hasOrphanedClaim } from '../recovery/needed.ts';
import type { RunProgress } from './run-recorder.ts';

/** A claimed job that runs or is going to run. */
export interface HeldJob {
  readonly job: ClaimedRow;
  readonly claim: ClaimRef;
  /** Null: there is no handler here. */
  readonly handler: Script | null;
  /** `queue/mail/welcome` */
  readonly script: string;
  readonly attempt: number;
  readonly timeoutMs: number;
}

/** A handler's run that has ended, and is not in the log yet. */
export interface HandledRun {
  readonly claimed: HeldJob;
  readonly startedAt: number;
  readonly end: RunEnd;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
}

export interface Turn {
  /** One for each ended run. */
  readonly settled: readonly Settled[];
  readonly next: readonly HeldJob[];
}

/** The part of a turn that was done before any other step. */
interface BegunTurn {
  readonly finished: ReadonlyMap<RunToSettle, Settled>;
  readonly claimed: readonly ClaimedRow[];
  /** Whether the claimed jobs need no further step. */
  readonly isWhole: boolean;
}

const notBegun: BegunTurn = { finished: new Map(), claimed: [], isWhole: false };

/** Records the runs of a queue worker. */
export interface QueueRecorder {
  /** Settles the ended runs and claims the next jobs, up to `wanted`, in one commit. */
  turn(ended: readonly HandledRun[], wanted: number): Promise<Turn>;
  /** Whether there is a job to take if there is room. */
  isAnyDue(): Promise<boolean>;
  /** Gives back claims that have not begun. */
  release(claims: readonly ClaimRef[]): Promise<void>;
  /** Returns those jobs claimed ahead that may still begin after others have changed the log; gives the others back. */
  keepHeld(claimed: readonly HeldJob[]): Promise<HeldJob[]>;
  /** Call it once a run has lasted a moment: from then on others see it. */
  recordProgress(claimed: HeldJob, startedAt: number, progress: RunProgress): Promise<void>;
  /** Hands over ends that the log cannot take, to the process that finds that this worker has ended. */
  handOver(ended: readonly HandledRun[], error: unknown): Promise<void>;
  /**
   * Replaces the job's data at its handler's request.
   *
   * @throws {QueueError} if the claim is no longer valid
   */
  update(claim: ClaimRef, data: string): Promise<void>;
}

/** How long after a recorded success of a script no other one is recorded, in milliseconds. */
const CALM_FOR_MS = 1_000;

interface Recording {
  readonly store: Store;
  readonly workerId: number;
  readonly runner: Runner;
  readonly handlers: Handlers;
  readonly selector: Selector;
  /** Takes ends that the log cannot take; absent: the files of the runs tell about them. */
  readonly spool?: (ended: readonly RunToSettle[], error: unknown) => Promise<void>;
  /** Called with one sentence about an end that the log has refused. */
  readonly onRefused: (sentence: string) => void;
  /** Called for a job that failed before its first try, once that is committed; absent: nobody counts them. */
  readonly onUnbegun?: (unbegun: UnbegunJob) => void;
}

/** A turn with nothing to settle and nothing to take. */
export const idleTurn: Turn = { settled: [], next: [] };

export function createQueueRecorder(recording: Recording): QueueRecorder {
  return new LogQueueRecorder(recording);
}

class LogQueueRecorder implements QueueRecorder {
  readonly #recording: Recording;
  /** Both belong to the current attempt at a transaction. */
  #archive: Archive;
  #unbegun: UnbegunJob[] = [];
  /** Rows of runs that lasted long enough to have one; an entry disappears with its job. */
  readonly #rows = new WeakMap<HeldJob, number>();
  /** Scripts whose success is recorded. */
  readonly #calm = new Set<string>();
  #calmUntil = 0;
  #claims = 0;

  constructor(recording: Recording) {
    this.#recording = recording;
    this.#archive = createArchive(recording.runner.settings.queue.archive);
  }

  isAnyDue(): Promise<boolean> {
    return this.#isAnyDueAt(this.#recording.runner.now());
  }

  async #isAnyDueAt(at: number): Promise<boolean> {
    const { store, selector } = this.#recording;
    return (await store.claims.next(await selector.select(at, store), at)) !== null;
  }

  async turn(ended: readonly HandledRun[], wanted: number): Promise<Turn> {
    // A transaction without work would still be a commit, and wake all others that wait.
    if (ended.length === 0 && (wanted === 0 || !(await this.isAnyDue()))) return idleTurn;
    const runs = ended.map((run) => this.#toSettle(run));
    const begun = await this.#turnAtOnce(runs, wanted);
    const others = runs.filter((run) => !begun.finished.has(run));
    const { settled, next } =
      begun.isWhole && others.length === 0
        ? { settled: [], next: this.#describe(begun.claimed) }
        : await this.#turnInSteps(others, wanted, begun.claimed);
    const left = settled.values();
    return { settled: runs.map((run) => begun.finished.get(run) ?? (left.next().value as Settled)), next };
  }

  /** Does what a server can do in one round trip with its commit: usually everything. */
  async #turnAtOnce(runs: readonly RunToSettle[], wanted: number): Promise<BegunTurn> {
    const { store } = this.#recording;
    const mayFollow = runs.length === 0 || wanted === 0 || !areUneventful(runs, this.#settleContext());
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

  async #turnInSteps(runs: readonly RunToSettle[], wanted: number, claimed: readonly ClaimedRow[]): Promise<Turn> {
    try {
      const turn = await this.#write((session) => this.#settleAndClaim(session, runs, wanted, claimed));
      this.#noteCalm(runs);
      return turn;
    } catch (error) {
      if (runs.length === 0 || !isRefusal(error)) throw error;
      // The batch was refused; settle its runs one by one to isolate the culprit.
      await this.release(claimed.map(({ id, claim_token }) => ({ id, token: claim_token })));
      return { settled: await this.#settleApart(runs), next: [] };
    }
  }

  /** Sends plain ends and the next claim to a server together: each round trip takes longer than the work there. */
  async #settleAndClaim(
    session: StoreSession,
    runs: readonly RunToSettle[],
    wanted: number,
    claimed: readonly ClaimedRow[],
  ): Promise<Turn> {
    const { store, runner } = this.#recording;
    const context = this.#settleContext();
    const isTogether = store.fleet !== null && runner.settings.queue.groupLimit === null && arePlain(runs, context);
    if (!isTogether || claimed.length > 0) {
      const settled = await settleRuns(session, runs, context);
      return { settled, next: await this.#claimNext(session, wanted, claimed) };
    }
    const [finished, next] = await allEnded([finishPlain(session, runs, context), this.#claimNext(session, wanted)]);
    return { settled: await settleOthers(session, runs, finished, context), next };
  }

  /** @param claimed jobs claimed before; those that may run are returned, too */
  async #claimNext(session: StoreSession, wanted: number, claimed: readonly ClaimedRow[] = []): Promise<HeldJob[]> {
    if (wanted === 0) return [];
    const claim = await this.#claimOf(wanted, session);
    const kept = claimed.length === 0 ? [] : await acceptClaimed(session, claimed, claim);
    const count = wanted - kept.length;
    const more = count === 0 ? [] : await claimJobs(session, { ...claim, count });
    return this.#describe([...kept, ...more]);
  }

  async #claimOf(count: number, session: StoreSession): Promise<QueueClaim> {
    const { runner, selector, workerId } = this.#recording;
    const { leaseMs: defaultLeaseMs, missedCap } = runner.settings.queue;
    const at = runner.now();
    const newToken = () => `${workerId}.${++this.#claims}`;
    return {
      ...{ selection: await selector.select(at, session), count, at, newToken },
      ...{ leaseMs: null, defaultLeaseMs, state: 'claimed' as const, missedCap, unbegun: this.#unbegun },
    };
  }

  #describe(jobs: readonly ClaimedRow[]): HeldJob[] {
    return jobs.map((job) => describeClaimed(job, this.#recording.handlers));
  }

  #toSettle({ claimed, startedAt, end, isRetryable }: HandledRun): RunToSettle {
    const { claim, handler } = claimed;
    return {
      ...{ claim, start: startOf(claimed, this.#recording.workerId, startedAt) },
      ...{ runId: this.#rows.get(claimed) ?? null, end: toFinishedRun(end) },
      ...{ result: end.result ?? null, decision: end.ask ?? null },
      ...{ isRetryable, policy: policyOf(handler?.options) },
      ...(this.#recording.store.fleet !== null && { claimed: claimed.job }),
    };
  }

  #settle(session: StoreSession, runs: readonly RunToSettle[]): Promise<Settled[]> {
    return settleRuns(session, runs, this.#settleContext());
  }

  #settleContext(): SettleContext {
    const { missedCap } = this.#recording.runner.settings.queue;
    const isCalm = performance.now() < this.#calmUntil;
    return { missedCap, archive: this.#archive, ...(isCalm && { calm: this.#calm }) };
  }

  /** On a server, a look for open incidents of a script costs as much as a run. */
  #noteCalm(runs: readonly RunToSettle[]): void {
    if (this.#recording.store.fleet === null) return;
    if (performance.now() >= this.#calmUntil) {
      this.#calm.clear();
      this.#calmUntil = performance.now() + CALM_FOR_MS;
    }
    for (const { start, end } of runs) {
      if (end.outcome === 'succeeded' && end.suspect === 0) this.#calm.add(start.script);
      else this.#calm.delete(start.script);
    }
  }

  /** Settles runs one after the other, so that a faulty one does not affect the others. */
  async #settleApart(runs: readonly RunToSettle[]): Promise<Settled[]> {
    const settled: Settled[] = [];
    for (const run of runs) {
      settled.push(await this.#settleAlone(run).catch((error) => this.#settleRefused(run, error)));
    }
    return settled;
  }

  async #settleAlone(run: RunToSettle): Promise<Settled> {
    const [settled] = await this.#write((session) => this.#settle(session, [run]));
    return settled as Settled;
  }

  async #settleRefused(run: RunToSettle, error: unknown): Promise<Settled> {
    const settled = await settleRefused(run, error, (refused) => this.#settleAlone(refused));
    this.#recording.onRefused(`job ${run.claim.id} has failed, as ${settled.refusal}`);
    return settled;
  }

  async #write<T>(work: (session: StoreSession) => Promise<T>): Promise<T> {
    const { store, runner } = this.#recording;
    let archive = this.#archive;
    let unbegun = this.#unbegun;
    const attempt = (session: StoreSession): Promise<T> => {
      archive = this.#archive = createArchive(runner.settings.queue.archive);
      unbegun = this.#unbegun = [];
      return work(session);
    };
    const result = await store.retryWhenFull(() => store.transaction(attempt, 'soon'));
    removeOutput(runner.state, archive.unnamed);
    for (const each of unbegun) this.#recording.onUnbegun?.(each);
    return result;
  }

  async release(claims: readonly ClaimRef[]): Promise<void> {
    const at = this.#recording.runner.now();
    if (claims.length > 0) await this.#write((session) => releaseClaims(session, claims, at));
  }

  async keepHeld(claimed: readonly HeldJob[]): Promise<HeldJob[]> {
    const { store, selector, runner } = this.#recording;
    const rows = await store.claims.held(claimed.map(({ claim }) => claim));
    const held = new Set(rows.map(({ claim_token }) => claim_token));
    const { isWanted, failsFast } = await selector.select(runner.now(), store);
    const kept = claimed.filter(
      ({ claim, job: { name } }) => held.has(claim.token) && isWanted(name) && !failsFast(name),
    );
    await this.release(claimed.filter((each) => !kept.includes(each)).map(({ claim }) => claim));
    return kept;
  }

  async recordProgress(claimed: HeldJob, startedAt: number, progress: RunProgress): Promise<void> {
    const { store, workerId } = this.#recording;
    const { claim } = claimed;
    const row = this.#rows.get(claimed);
    if (row !== undefined) {
      return await store.runs.progress({ runId: row, jobId: claim.id }, progress);
    }
    const run = { ...startOf(claimed, workerId, startedAt), ...progress };
    const begun = await this.#write((session) => beginRun(session, claim, run));
    if (begun !== null) this.#rows.set(claimed, begun);
  }

  async handOver(ended: readonly HandledRun[], error: unknown): Promise<void> {
    const runs = ended.map((run) => this.#toSettle(run));
    await this.#recording.spool?.(runs, error);
  }

  async update({ id, token }: ClaimRef, data: string): Promise<void> {
    const { store, runner } = this.#recording;
    if (await store.jobs.updateData(id, token, data)) return;
    // The handler works in vain; the refusal says why.
    const askedAt = runner.now();
    await store.transaction((session) => findJob({ ...session, askedAt }, { id, token }));
  }
}

function startOf(claimed: HeldJob, workerId: number, startedAt: number): RunStart {
  const { job, claim, script, handler, attempt, timeoutMs } = claimed;
  return {
    ...{
      jobId: job.id,
      workerId,
      key: claim.token,
      script,
      contentHash: handler?.contentHash ?? null,
    },
    ...{ attempt, scheduledFor: job.scheduled_for, startedAt, timeoutMs },
  };
}

/** A run belongs to its handler, whatever parameters the name of its job contains. */
function describeClaimed(job: ClaimedRow, handlers: Handlers): HeldJob {
  const handler = handlers.find(job.name);
  return {
    job,
    claim: { id: job.id, token: job.claim_token },
    handler,
    script: `queue/${withoutParameters(job.name)}`,
    attempt: job.attempts + 1,
    timeoutMs: handler?.options.timeoutMs ?? defaultTimeoutMs('queue'),
  };
}

const SHORTEST_BEAT_MS = 200;

export interface LeaseHeartbeat {
  /** Takes a job's own lease into account, which may be shorter than all others. */
  note(leaseMs: number | null): void;
  /**
   * Calls `end` for a lasting run once its job is no longer its own: somebody else has failed, buried or requeued it.
   */
  guard(claim: ClaimRef, end: () => void): void;
  /** Call it once the run's process has ended. */
  unguard(claim: ClaimRef): void;
  stop(): void;
}

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
    guard: (claim: ClaimRef, end: () => void) => void guarded.set(claim, end),
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
export function renewLeases(call: StoreInvocation, { workerId, policyOfName, onTakenBack }: Beating): LeaseHeartbeat {
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
    note: (leaseMs) => {
      if (leaseMs === null || leaseMs >= shortestMs) return;
      shortestMs = leaseMs;
      schedule();
    },
    ...guarding,
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
