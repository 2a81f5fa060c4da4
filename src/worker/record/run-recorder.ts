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
  /** Null: the log knows nothing of it. */
  readonly id: number | null;
  readonly script: Script;
  /** By which its period is told: when that began, or the time of its own schedule. */
  readonly scheduledFor: number | null;
  /** When it was to begin, by the crontab or its own schedule; left out or null: not known. */
  readonly dueAt?: number | null;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Its row as it was seen: another machine may run it first. */
  readonly seen?: ScriptClaim['seen'];
}

/** A job that this worker has, and that has not begun. */
export interface ClaimedRun extends PassJob {
  /** By which its files and its process are found. */
  readonly key: string;
  /** Where its files go: beside the record of it. */
  readonly state: StateFolder;
  /** What settles it in the log; null: the log knows nothing of it. */
  readonly claim: ClaimRef | null;
}

/** A run that has begun, wherever that is recorded. */
export interface BegunRun extends ClaimedRun {
  readonly startedAt: number;
  readonly timeoutMs: number;
}

/** What is known of a run while it goes on. */
export interface RunProgress {
  readonly pid: number;
  readonly startTicks: number | null;
  /** The most memory seen so far; null: none was. */
  readonly maxRssBytes: number | null;
}

/** What a script is told of its own past. */
export interface ScriptHistory {
  /** When its last successful run started. */
  readonly lastSuccess: number | null;
  /** Whether its last run died with its runner. */
  readonly previouslyCrashed: boolean;
}

/** What is known of a script's past. */
export interface KnownHistory extends ScriptHistory {
  /** How long its last successful run took; null: it is not known. */
  readonly lastDurationMs: number | null;
}

/** A run whose end is recorded; what becomes of its job, and its number in the log, may not be known yet. */
export interface RecordedRun extends Settled {
  /** What was claimed with it; null: nothing was. */
  readonly next: ClaimedRun | null;
}

/** A run that is over, and not recorded yet. */
export interface EndedScript {
  readonly run: BegunRun;
  readonly end: RunEnd;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
}

/** Where a pass records its runs. */
export interface RunRecorder {
  /** Null: another worker has the job. */
  claim(job: PassJob): Promise<ClaimedRun | null>;
  /** Gives back what has not begun. */
  release(run: ClaimedRun): Promise<void>;
  /** Cancels what has not begun. Where other machines share the log it is given back: they may have the script. */
  cancel(run: ClaimedRun, reason: string): Promise<void>;
  /**
   * Of one whose files cannot be made where they belong: has it, and all that comes after it, recorded elsewhere.
   * Null: nothing is to be started any more.
   */
  moveElsewhere(run: ClaimedRun, error: unknown): Promise<ClaimedRun | null>;
  readHistory(run: ClaimedRun): Promise<KnownHistory>;
  /** To be called right before the script is started. Null: it is not to be, as another machine has taken it over. */
  begin(run: ClaimedRun): Promise<BegunRun | null>;
  /** To be called once the run has lasted a moment: from then on it is seen by others. */
  recordProgress(run: BegunRun, progress: RunProgress): Promise<void>;
  /** @param next the job to be claimed in the same commit; null: none */
  end(ended: EndedScript, next: PassJob | null): Promise<RecordedRun>;
  /** Calls back once all that was recorded by now survives a power loss, or cannot be known to. */
  onDurable(notify: NotifyDurable): void;
}

/** One that records in one place alone. */
export interface PlacedRecorder extends Omit<RunRecorder, 'moveElsewhere'> {
  /** Where the files of its runs go. */
  readonly state: StateFolder;
}

interface LogRecorderOptions {
  readonly heartbeat?: Pick<Heartbeat, 'confirm'> | undefined;
  /** Whether somebody watches the runs: {@link SettleContext.isWatched}. Default false. */
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
  /** Rows of runs that have lasted long enough to have one. */
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
    // Nobody else runs it then.
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

  /** Where others take over what is silent they must know that it has begun; alone, its files tell. */
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
    // What is lost during its commit may be stored: once the database is back, the run begins, or has begun already.
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

  async end(ended: EndedScript, next: PassJob | null): Promise<RecordedRun> {
    const told = this.#toSettle(ended);
    this.#rows.delete(ended.run.key);
    const settle = (run: RunToSettle) => this.#settle(run, next);
    return await settle(told).catch((error) => settleRefused(told, error, settle));
  }

  async #settle(run: RunToSettle, next: PassJob | null): Promise<RecordedRun> {
    const { missedCap } = this.#runner.settings.queue;
    return await this.#store.retryWhenFull(() =>
      this.#store.transaction(async (session) => {
        const [settled] = await settleRuns(session, [run], { missedCap, isWatched: this.#isWatched });
        const claimed = next === null ? null : await this.#claim(session, next);
        return { decision: null, runId: null, ...settled, next: claimed };
      }, 'soon'),
    );
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

/** It has not ended, and no worker has it that is at work, whatever its row says. */
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

/** The recorder that a pass begins with, and what takes its place should that fail on the way. */
interface Failover {
  readonly first: PlacedRecorder;
  /** Whether other machines may take over what cannot be recorded: it is not started then. */
  readonly isShared?: boolean;
  /** Called when the one before cannot be written to. @throws when there is no other place either */
  replace(error: unknown): Promise<PlacedRecorder>;
}

/**
 * Goes on elsewhere when the log, or the spool, is lost in the middle of a pass, and stays there. A defect of the
 * runner is no loss: it would be met elsewhere too, or hidden.
 */
export function createFailoverRecorder({ first, replace, isShared = false }: Failover): RunRecorder {
  const begun = Promise.resolve(first);
  let current = begun;
  const replaceOnce = (failed: Promise<PlacedRecorder>, error: unknown): Promise<PlacedRecorder> => {
    // With several scripts at a time, another one may have found it lost meanwhile.
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
      // What cannot be given back now is by whoever finds that this worker has ended.
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
      // The run goes on, and its end tells all of it: a server may be back by then.
      await (await current).recordProgress(run, progress).catch(() => {});
    },
    end: (ended, next) => attempt((recorder) => recorder.end(ended, next)),
    onDurable: (notify) => {
      if (current === begun) first.onDurable(notify);
      else notify(null);
    },
  };
}
