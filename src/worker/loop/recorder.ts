import type { Script } from '../../discovery/script.ts';
import { type RunEnd, toFinishedRun } from '../../execution/result/result.ts';
import { beginRun, releaseClaims, type UnbegunJob } from '../../queue/claim/claim.ts';
import type { UsedEnds } from '../../queue/links.ts';
import { type Archive, createArchive } from '../../queue/settle/archive.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import {
  type RunToSettle,
  recordRefused,
  type SettleContext,
  type Settled,
  settleRuns,
} from '../../queue/settle/settle.ts';
import type { Runner } from '../../settings/settings.ts';
import { isRefusal } from '../../store/failures.ts';
import type { RunStart } from '../../store/shared/run-rows.ts';
import type { ClaimedRow } from '../../store/statements/claims.ts';
import type { ClaimRef } from '../../store/statements/runs.ts';
import type { ScriptClaim } from '../../store/statements/script-jobs.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { removeOutput, type StateFolder } from '../../system/place/state-folder.ts';

/** A script that a pass is to run. */
export interface PassJob {
  /** Null: the log does not know the job. */
  readonly id: number | null;
  readonly script: Script;
  /** The time that identifies its period: the period's start, or the time of its own schedule. */
  readonly scheduledFor: number | null;
  /** When it was due by the crontab or its own schedule; absent or null: unknown. */
  readonly dueAt?: number | null;
  /** 1 for the first try. */
  readonly attempt: number;
  /** When its next try is due, if this pass makes it; epoch milliseconds. Absent: at once. */
  readonly notBefore?: number;
  /** Its row as last read: another machine may run it first. */
  readonly seen?: ScriptClaim['seen'];
  /** Absent: it was not claimed when it was queued. */
  readonly claim?: ClaimRef;
  /** It runs once other jobs of the pass have ended as its links want. Absent: it waits for none. */
  readonly waits?: true;
  /** The ends that it uses, if only this pass knows them. Absent: its row has them, or it uses none. */
  readonly usedEnds?: UsedEnds;
}

/** One try of a job that this worker has claimed: a script of a pass, or a job of the queue. */
export interface ClaimedRun<Job = PassJob | ClaimedRow> {
  /** The job before its claim. */
  readonly job: Job;
  /** The key by which its files and its process are found. */
  readonly key: string;
  /** The claim by which the log settles it; null: the log does not know the job. */
  readonly claim: ClaimRef | null;
  /** The folder of its files, beside its record. */
  readonly state: StateFolder;
  /** `hourly/clean-tmp`, `queue/mail/welcome` */
  readonly name: string;
  /** Null: this machine has no handler for the job. */
  readonly script: Script | null;
  /** Taken before the script begins, which may replace its own files; null: unknown. */
  readonly contentHash: string | null;
  readonly attempt: number;
  /** When it was due; null: unknown. */
  readonly dueAt: number | null;
  readonly timeoutMs: number;
}

/** A run that has ended, and is not recorded yet. */
export interface EndedRun<Run extends ClaimedRun = ClaimedRun> {
  readonly run: Run;
  readonly startedAt: number;
  readonly end: RunEnd;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
}

/** The result of one commit. */
export interface Turn<Run extends ClaimedRun = ClaimedRun> {
  /** One for each ended run. */
  readonly settled: readonly Settled[];
  /** The runs claimed in the same commit. */
  readonly next: readonly Run[];
}

/** The facts about a run while it goes on. */
export interface RunProgress {
  readonly pid: number;
  readonly startTicks: number | null;
  /** The highest memory seen so far; null: none. */
  readonly maxRssBytes: number | null;
}

/** Looks for somebody who wants the end of a run; null: nobody does. */
export type WhoStops = () => Promise<string | null>;

/** The facts of a run's beginning, wherever it is recorded. */
export function startOf(run: ClaimedRun, startedAt: number): Omit<RunStart, 'jobId' | 'workerId' | 'key'> {
  const { name, contentHash, attempt, dueAt, timeoutMs } = run;
  return { script: name, contentHash, attempt, scheduledFor: dueAt, startedAt, timeoutMs };
}

export interface Recording {
  readonly store: Store;
  readonly workerId: number;
  readonly runner: Pick<Runner, 'state' | 'now' | 'settings'>;
  /** Called for a job that failed before its first try, once that is committed; absent: nobody counts them. */
  readonly onUnbegun?: (unbegun: UnbegunJob) => void;
}

/** The data of one attempt at a transaction: a server may require another attempt. */
export interface Attempt {
  readonly archive: Archive;
  /** Jobs that fail instead of being claimed. */
  readonly unbegun: UnbegunJob[];
}

/** Records runs in the log. `Wanted` says what is claimed next, in the commit that settles the runs before. */
export abstract class LogRecorder<Run extends ClaimedRun, Wanted> {
  protected readonly recording: Recording;
  /** Rows of runs that lasted long enough to have one. */
  readonly #rows = new WeakMap<ClaimedRun, number>();
  #claims: number;

  /** @param claims how many claims this worker has made already */
  constructor(recording: Recording, claims = 0) {
    this.recording = recording;
    this.#claims = claims;
  }

  /** Claims what is wanted, and describes it. Called in a transaction. */
  protected abstract claim(session: StoreSession, wanted: Wanted, attempt: Attempt): Promise<readonly Run[]>;

  protected context({ archive }: Attempt): SettleContext {
    return { missedCap: this.recording.runner.settings.queue.missedCap, archive };
  }

  /** The token of the next claim; it names the files of the run, so that no other one may have it. */
  protected newToken(): string {
    this.#claims += 1;
    return tokenOf(this.recording.workerId, this.#claims);
  }

  /** Settles runs and claims what is wanted, in one commit. If the log refuses an end, each run gets its own commit. */
  protected async settleAndClaim(runs: readonly RunToSettle[], wanted: Wanted | null): Promise<Turn<Run>> {
    try {
      return await this.write(async (session, attempt) => {
        const settled = await settleRuns(session, runs, this.context(attempt));
        return { settled, next: wanted === null ? [] : await this.claim(session, wanted, attempt) };
      });
    } catch (error) {
      if (runs.length === 0 || !isRefusal(error)) throw error;
      return await this.#settleApart(runs, wanted);
    }
  }

  /** A faulty run must not affect the others. */
  async #settleApart(runs: readonly RunToSettle[], wanted: Wanted | null): Promise<Turn<Run>> {
    const settled: Settled[] = [];
    for (const run of runs) {
      const record = (told: RunToSettle) =>
        this.write((session, attempt) => settleRuns(session, [told], this.context(attempt)));
      const recorded = await record(run).catch((error) =>
        recordRefused(run, error, async (refused) =>
          (await record(refused)).map((each) => ({ ...each, refusal: refused.end.reason })),
        ),
      );
      settled.push(...recorded);
    }
    if (wanted === null) return { settled, next: [] };
    return { settled, next: await this.write((session, attempt) => this.claim(session, wanted, attempt)) };
  }

  protected newAttempt(): Attempt {
    return { archive: createArchive(this.recording.runner.settings.queue.archive), unbegun: [] };
  }

  protected async write<T>(work: (session: StoreSession, attempt: Attempt) => Promise<T>): Promise<T> {
    const { store, runner, onUnbegun } = this.recording;
    let last = this.newAttempt();
    const attempt = (session: StoreSession): Promise<T> => {
      last = this.newAttempt();
      return work(session, last);
    };
    const result = await store.retryWhenFull(() => store.transaction(attempt, 'soon'));
    removeOutput(runner.state, last.archive.unnamed);
    for (const each of last.unbegun) onUnbegun?.(each);
    return result;
  }

  protected toSettle({ run, startedAt, end, isRetryable }: EndedRun<Run>): RunToSettle {
    return {
      ...{ claim: claimOf(run), start: this.#startOf(run, startedAt), runId: this.#rows.get(run) ?? null },
      ...{ end: toFinishedRun(end), result: end.result ?? null, decision: end.ask ?? null },
      ...{ isRetryable, policy: policyOf(run.script?.options) },
    };
  }

  #startOf(run: ClaimedRun, startedAt: number): RunStart {
    const { id: jobId, token: key } = claimOf(run);
    return { ...startOf(run, startedAt), jobId, workerId: this.recording.workerId, key };
  }

  /** Gives back claims that have not begun. */
  async release(runs: readonly ClaimedRun[]): Promise<void> {
    const at = this.recording.runner.now();
    if (runs.length > 0) await this.write((session) => releaseClaims(session, runs.map(claimOf), at));
  }

  /** Call it once the run has lasted a moment: from then on others see it, and may stop it. */
  async recordProgress(run: Run, startedAt: number, progress: RunProgress): Promise<WhoStops | null> {
    const { events, runs } = this.recording.store;
    const begun = this.#rows.get(run);
    if (begun === undefined) await this.recordBeginning(run, startedAt, progress);
    else await runs.progress({ runId: begun, jobId: claimOf(run).id }, progress);
    const runId = this.#rows.get(run);
    return runId === undefined ? null : () => events.whoStops({ runId, jobId: claimOf(run).id });
  }

  /** @returns false: the claim was lost meanwhile, or `mayBegin` has refused it */
  protected async recordBeginning(
    run: Run,
    startedAt: number,
    progress: Omit<RunProgress, 'pid'> & { readonly pid: number | null },
    mayBegin = async (_session: StoreSession): Promise<boolean> => true,
  ): Promise<boolean> {
    const lasting = { ...this.#startOf(run, startedAt), ...progress };
    const row = await this.write(async (session) =>
      (await mayBegin(session)) ? await beginRun(session, claimOf(run), lasting) : null,
    );
    if (row !== null) this.#rows.set(run, row);
    return row !== null;
  }
}

export function tokenOf(workerId: number, claims: number): string {
  return `${workerId}.${claims}`;
}

export function claimOf({ name, claim }: ClaimedRun): ClaimRef {
  if (claim === null) throw new Error(`${name} was not claimed in the log.`);
  return claim;
}
