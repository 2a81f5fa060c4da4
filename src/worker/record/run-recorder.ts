import type { Script } from '../../discovery/script.ts';
import { type RunEnd, toFinishedRun } from '../../execution/result/result.ts';
import { cancelScripts } from '../../queue/add/scripts.ts';
import { beginRun, releaseClaims } from '../../queue/claim/claim.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import { type RunToSettle, type Settled, settleRefused, settleRuns } from '../../queue/settle/settle.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import type { ScriptClaim, ScriptJobRow } from '../../store/contract/jobs.ts';
import type { ClaimRef, RunStart } from '../../store/contract/runs.ts';
import type { NotifyDurable, Store, StoreSession } from '../../store/contract/store.ts';
import { isDefect, kindOfStoreFailure, StoreUnavailable } from '../../store/failures.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { Heartbeat } from '../fleet/heartbeat.ts';

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
  /** Its row as last read: another machine may run it first. */
  readonly seen?: ScriptClaim['seen'];
}

/** A job that this worker has claimed and not begun. */
export interface ClaimedRun extends PassJob {
  /** The key by which its files and its process are found. */
  readonly key: string;
  /** The folder of its files, beside its record. */
  readonly state: StateFolder;
  /** The claim by which the log settles it; null: the log does not know the job. */
  readonly claim: ClaimRef | null;
}

/** A run that has begun, wherever that is recorded. */
export interface BegunRun extends ClaimedRun {
  readonly startedAt: number;
  readonly timeoutMs: number;
}

/** The facts about a run while it goes on. */
export interface RunProgress {
  readonly pid: number;
  readonly startTicks: number | null;
  /** The highest memory seen so far; null: none. */
  readonly maxRssBytes: number | null;
}

/** The facts of its own past for a script. */
export interface ScriptHistory {
  /** Start of its last successful run. */
  readonly lastSuccess: number | null;
  /** Whether its last run died with its runner. */
  readonly previouslyCrashed: boolean;
}

/** The known past of a script. */
export interface KnownHistory extends ScriptHistory {
  /** How long its last successful run took, in milliseconds; null: unknown. */
  readonly lastDurationMs: number | null;
}

/** A run whose end is recorded. The next state of its job, and its number in the log, may not be known yet. */
export interface RecordedRun extends Settled {
  /** The run claimed in the same commit; null: none. */
  readonly next: ClaimedRun | null;
  /** Whether the same commit has finished the worker. */
  readonly isLast: boolean;
}

/** A run that has ended, and is not recorded yet. */
export interface EndedScript {
  readonly run: BegunRun;
  readonly end: RunEnd;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
}

/** Records the runs of a pass. */
export interface RunRecorder {
  /** Null: another worker has the job. */
  claim(job: PassJob): Promise<ClaimedRun | null>;
  /** Gives back a claim that has not begun. */
  release(run: ClaimedRun): Promise<void>;
  /**
   * Cancels a claim that has not begun. If other machines share the log it is given back instead: they may have the
   * script.
   */
  cancel(run: ClaimedRun, reason: string): Promise<void>;
  /**
   * Moves the recording of this run and all later ones elsewhere, if its files cannot be made in their place. Null:
   * nothing more may start.
   */
  moveElsewhere(run: ClaimedRun, error: unknown): Promise<ClaimedRun | null>;
  readHistory(run: ClaimedRun): Promise<KnownHistory>;
  /** Call it right before the script starts. Null: it must not start, because another machine has taken it over. */
  begin(run: ClaimedRun): Promise<BegunRun | null>;
  /** Call it once the run has lasted a moment: from then on others see it. */
  recordProgress(run: BegunRun, progress: RunProgress): Promise<void>;
  /** @param then a job to claim in the same commit, or `finish`: it finishes the worker; null: neither */
  end(ended: EndedScript, then: PassJob | 'finish' | null): Promise<RecordedRun>;
  /**
   * Calls back once all that is recorded by now survives a power loss, or with the failure that leaves this uncertain.
   */
  onDurable(notify: NotifyDurable): void;
}

/** A recorder with a single place. */
export interface PlacedRecorder extends Omit<RunRecorder, 'moveElsewhere'> {
  /** The folder of its runs' files. */
  readonly state: StateFolder;
}

interface LogRecorderOptions {
  readonly heartbeat?: Pick<Heartbeat, 'confirm'> | undefined;
  /** Whether a person watches the runs: {@link SettleContext.isWatched}. Default false. */
  readonly isWatched?: boolean;
}

/** Records runs in the activity log. */
export function createStoreRecorder(
  store: Store,
  workerId: number,
  runner: Pick<Runner, 'state' | 'now' | 'settings'>,
  options: LogRecorderOptions = {},
): PlacedRecorder {
  return new LogRecorder(store, workerId, runner, options);
}

class LogRecorder implements PlacedRecorder {
  readonly #store: Store;
  readonly #workerId: number;
  readonly #runner: Pick<Runner, 'state' | 'now' | 'settings'>;
  readonly #heartbeat: Pick<Heartbeat, 'confirm'> | undefined;
  readonly #isWatched: boolean;
  /** Rows of runs that lasted long enough to have one. */
  readonly #rows = new Map<string, number>();
  #claims = 0;

  constructor(...[store, workerId, runner, options = {}]: Parameters<typeof createStoreRecorder>) {
    this.#store = store;
    this.#workerId = workerId;
    this.#runner = runner;
    this.#heartbeat = options.heartbeat;
    this.#isWatched = options.isWatched === true;
  }

  get state(): StateFolder {
    return this.#runner.state;
  }

  claim(job: PassJob): Promise<ClaimedRun | null> {
    return this.#store.transaction((session) => this.#claim(session, job), 'soon');
  }

  async #claim(session: StoreSession, job: PassJob): Promise<ClaimedRun | null> {
    const { state, now } = this.#runner;
    if ((await this.#heartbeat?.confirm(session, this.#workerId)) === false) return null;
    const key = `${this.#workerId}.${++this.#claims}`;
    const claim = { id: job.id as number, token: key };
    const claims = [{ ...claim, state: 'claimed' as const, at: now(), ...(job.seen && { seen: job.seen }) }];
    const [claimed] = await session.scriptJobs.claim(claims);
    if (claimed !== undefined) return { ...job, key, state, claim };
    if (this.#store.fleet !== null) return null;
    const row = (await session.scriptJobs.ofTier(job.script.tier)).find(({ id }) => id === job.id);
    if (row !== undefined && !(await isUnheld(session, row))) return null;
    // In that case nobody else runs it.
    const change = row === undefined ? 'removed' : 'changed';
    throw new StoreUnavailable('changed', `the row of ${job.script.name} was ${change} during its pass`);
  }

  async release(run: ClaimedRun): Promise<void> {
    const { now } = this.#runner;
    await this.#store.transaction((session) => releaseClaims(session, [claimOf(run)], now()));
  }

  async cancel(run: ClaimedRun, reason: string): Promise<void> {
    if (this.#store.fleet !== null) return await this.release(run);
    const at = this.#runner.now();
    const claim = claimOf(run);
    await this.#store.transaction(async (session) => {
      await releaseClaims(session, [claim], at);
      const open = await session.scriptJobs.open(run.script.tier);
      const given = open.filter(({ id, claim_token }) => id === claim.id && claim_token === null);
      await cancelScripts(session, given, { at, reason });
    }, 'soon');
  }

  async readHistory({ script }: ClaimedRun): Promise<KnownHistory> {
    const { lastOutcome, ...known } = await this.#store.runs.history(script.name);
    return { ...known, previouslyCrashed: lastOutcome === 'crashed' };
  }

  /**
   * Other machines take over silent runs, so they must know that this one has begun. Without them, its files tell it.
   */
  async begin(claimed: ClaimedRun): Promise<BegunRun | null> {
    const run = toBegun(claimed, this.#runner.now());
    const heartbeat = this.#heartbeat;
    if (heartbeat === undefined) return run;
    const start = { ...startOf(run, this.#workerId), pid: null, startTicks: null, maxRssBytes: null };
    const record = () =>
      this.#store.transaction(async (session) => {
        if (!(await heartbeat.confirm(session, this.#workerId))) return null;
        return await beginRun(session, claimOf(run), start);
      });
    // A commit during which the connection is lost may still be stored. Once the database is back, the run begins, or
    // has begun already.
    const row = await record().catch((error) => {
      if (kindOfStoreFailure(error) !== 'away') throw error;
      return record();
    });
    if (row === null) return null;
    this.#rows.set(run.key, row);
    return run;
  }

  async recordProgress(run: BegunRun, progress: RunProgress): Promise<void> {
    const runId = this.#rows.get(run.key);
    if (runId !== undefined) {
      await this.#store.runs.progress({ runId, jobId: claimOf(run).id }, progress);
      return;
    }
    const start = { ...startOf(run, this.#workerId), ...progress };
    const row = await this.#store.transaction((session) => beginRun(session, claimOf(run), start), 'soon');
    if (row !== null) this.#rows.set(run.key, row);
  }

  async end(ended: EndedScript, then: PassJob | 'finish' | null): Promise<RecordedRun> {
    const told = this.#toSettle(ended);
    this.#rows.delete(ended.run.key);
    const settle = (run: RunToSettle) => this.#settle(run, then);
    return await settle(told).catch((error) => settleRefused(told, error, settle));
  }

  async #settle(run: RunToSettle, then: PassJob | 'finish' | null): Promise<RecordedRun> {
    const { missedCap } = this.#runner.settings.queue;
    return await this.#store.retryWhenFull(() =>
      this.#store.transaction(async (session) => {
        const [settled] = await settleRuns(session, [run], { missedCap, isWatched: this.#isWatched });
        const isLast = then === 'finish';
        if (isLast) await this.#finish(session);
        const next = isLast || then === null ? null : await this.#claim(session, then);
        return { decision: null, runId: null, ...settled, next, isLast };
      }, 'soon'),
    );
  }

  async #finish({ workers }: StoreSession): Promise<void> {
    await workers.end(this.#workerId, { state: 'finished', at: this.#runner.now(), reason: null });
  }

  #toSettle({ run, end, isRetryable }: EndedScript): RunToSettle {
    return {
      ...{ claim: claimOf(run), start: startOf(run, this.#workerId) },
      ...{ runId: this.#rows.get(run.key) ?? null, end: toFinishedRun(end) },
      ...{ result: null, decision: null, isRetryable, policy: policyOf(run.script.options) },
    };
  }

  onDurable(notify: NotifyDurable): void {
    this.#store.onDurable(notify);
  }
}

/** Whether a job has not ended and no working worker holds it, whatever its row says. */
async function isUnheld(session: StoreSession, { id, state }: ScriptJobRow): Promise<boolean> {
  if (!['queued', 'retrying', 'claimed', 'running'].includes(state)) return false;
  return (await session.claims.ofWorkers()).every(({ job, worker }) => job.id !== id || worker.state !== 'running');
}

export function toBegun(run: ClaimedRun, startedAt: number): BegunRun {
  const { options, tier } = run.script;
  return { ...run, startedAt, timeoutMs: options.timeoutMs ?? defaultTimeoutMs(tier) };
}

function startOf(run: BegunRun, workerId: number): RunStart {
  const { id, key, script, attempt, dueAt: scheduledFor = null, startedAt, timeoutMs } = run;
  const { name, contentHash } = script;
  const jobId = id as number;
  return {
    ...{ jobId, workerId, key, script: name, contentHash },
    ...{ attempt, scheduledFor, startedAt, timeoutMs },
  };
}

function claimOf({ script, claim }: ClaimedRun): ClaimRef {
  if (claim === null) throw new Error(`${script.name} was not claimed in the log.`);
  return claim;
}

/** The first recorder of a pass, and a way to replace one that fails. */
interface Failover {
  readonly first: PlacedRecorder;
  /** Whether other machines may take over runs that cannot be recorded; such runs are not started. */
  readonly isShared?: boolean;
  /** Called when the present recorder cannot be written to. @throws if there is no other place either */
  replace(error: unknown): Promise<PlacedRecorder>;
}

/**
 * Continues elsewhere if the log or the spool is lost in the middle of a pass, and stays there. A defect of the runner
 * is not such a loss: it would occur elsewhere, too, or be hidden.
 */
export function createFailoverRecorder({ first, replace, isShared = false }: Failover): RunRecorder {
  const begun = Promise.resolve(first);
  let current = begun;
  const replaceOnce = (failed: Promise<PlacedRecorder>, error: unknown): Promise<PlacedRecorder> => {
    // If several scripts run at a time, another one may have noticed the loss first.
    if (current === failed) current = replace(error);
    return current;
  };
  const attempt = async <T>(record: (recorder: PlacedRecorder) => Promise<T>): Promise<T> => {
    const used = current;
    try {
      return await record(await used);
    } catch (error) {
      if (isDefect(error)) throw error;
      return await record(await replaceOnce(used, error));
    }
  };
  return {
    claim: (job) => attempt((recorder) => recorder.claim(job)),
    release: (run) => attempt((recorder) => recorder.release(run)),
    cancel: (run, reason) => attempt((recorder) => recorder.cancel(run, reason)),
    moveElsewhere: async (run, error) => {
      const used = current;
      const isThere = (await used).state.path === run.state.path;
      await (isThere ? replaceOnce(used, error) : used);
      // A claim that cannot be given back now is released by the process that finds that this worker has ended.
      await first.release(run).catch(() => {});
      return await attempt((recorder) => recorder.claim(run));
    },
    readHistory: (run) => attempt((recorder) => recorder.readHistory(run)),
    begin: async (run) => {
      if (!isShared) return await attempt((recorder) => recorder.begin(run));
      const used = current;
      try {
        return await (await used).begin(run);
      } catch (error) {
        if (isDefect(error)) throw error;
        await replaceOnce(used, error);
        return null;
      }
    },
    recordProgress: async (run, progress) => {
      if (!isShared) return await attempt((recorder) => recorder.recordProgress(run, progress));
      // The run goes on, and its end contains everything: a server may be back by then.
      await (await current).recordProgress(run, progress).catch(() => {});
    },
    end: (ended, then) => attempt((recorder) => recorder.end(ended, then)),
    onDurable: (notify) => {
      if (current === begun) first.onDurable(notify);
      else notify(null);
    },
  };
}
