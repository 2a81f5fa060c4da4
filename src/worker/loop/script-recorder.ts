import type { Script } from '../../discovery/script.ts';
import { releaseClaims } from '../../queue/claim/claim.ts';
import { cancelWaiting } from '../../queue/settle/families.ts';
import type { SettleContext } from '../../queue/settle/settle.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import { isDefect, kindOfStoreFailure, StoreUnavailable } from '../../store/failures.ts';
import type { NotifyDurable } from '../../store/sqlite/session.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { Heartbeat } from '../invocation/heartbeat.ts';
import {
  type Attempt,
  type ClaimedRun,
  claimOf,
  type EndedRun,
  LogRecorder,
  type PassJob,
  type Recording,
  type RunProgress,
  type Turn,
} from './recorder.ts';

/** A claimed script of a pass. */
export interface ScriptRun extends ClaimedRun<PassJob> {
  readonly script: Script;
}

export function toScriptRun(
  job: PassJob,
  { key, state, claim }: Pick<ScriptRun, 'key' | 'state' | 'claim'>,
): ScriptRun {
  const { script, attempt, dueAt = null } = job;
  const timeoutMs = script.options.timeoutMs ?? defaultTimeoutMs(script.tier);
  return { job, key, claim, state, name: script.name, script, attempt, dueAt, timeoutMs };
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

export interface ScriptTurn extends Turn<ScriptRun> {
  /** Whether the same commit has finished the worker. */
  readonly isFinished: boolean;
}

/** Records the runs of a pass. */
export interface RunRecorder {
  /**
   * Settles the runs that have ended.
   *
   * @param then a job to claim in the same commit, or `finish`: it finishes the worker; null: neither. The job is not
   * among those claimed if another worker has it
   */
  turn(ended: readonly EndedRun<ScriptRun>[], then: PassJob | 'finish' | null): Promise<ScriptTurn>;
  /** Gives back claims that have not begun. */
  release(runs: readonly ScriptRun[]): Promise<void>;
  /**
   * Cancels a claim that has not begun. If other machines share the log it is given back instead: they may have the
   * script.
   */
  cancel(run: ScriptRun, reason: string): Promise<void>;
  /**
   * Moves the recording of this run and all later ones elsewhere, if its files cannot be made in their place. Null:
   * nothing more may start.
   */
  moveElsewhere(run: ScriptRun, error: unknown): Promise<ScriptRun | null>;
  readHistory(run: ScriptRun): Promise<KnownHistory>;
  /**
   * Call it right before the script starts; it returns that instant. Null: the script must not start, because another
   * machine has taken it over.
   */
  begin(run: ScriptRun): Promise<number | null>;
  /** Call it once the run has lasted a moment: from then on others see it. */
  recordProgress(run: ScriptRun, startedAt: number, progress: RunProgress): Promise<void>;
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

interface ScriptRecording extends Recording {
  readonly heartbeat?: Pick<Heartbeat, 'confirm'> | undefined;
  /** Whether a person watches the runs: {@link SettleContext.isWatched}. Default false. */
  readonly isWatched?: boolean;
}

/** Records the runs of a pass in the log. */
export class ScriptRecorder extends LogRecorder<ScriptRun, PassJob | 'finish'> implements PlacedRecorder {
  readonly #heartbeat: Pick<Heartbeat, 'confirm'> | undefined;
  readonly #isWatched: boolean;

  constructor({ heartbeat, isWatched = false, ...recording }: ScriptRecording) {
    super(recording);
    this.#heartbeat = heartbeat;
    this.#isWatched = isWatched;
  }

  get state(): StateFolder {
    return this.recording.runner.state;
  }

  protected override context(attempt: Attempt): SettleContext {
    return { ...super.context(attempt), isWatched: this.#isWatched };
  }

  async turn(ended: readonly EndedRun<ScriptRun>[], then: PassJob | 'finish' | null): Promise<ScriptTurn> {
    const turn = await this.settleAndClaim(
      ended.map((run) => this.toSettle(run)),
      then,
    );
    return { ...turn, isFinished: then === 'finish' };
  }

  protected async claim(session: StoreSession, then: PassJob | 'finish'): Promise<readonly ScriptRun[]> {
    if (then !== 'finish') return await this.#claimJob(session, then);
    const { workerId, runner } = this.recording;
    await session.workers.end(workerId, { state: 'finished', at: runner.now(), reason: null });
    return [];
  }

  async #claimJob(session: StoreSession, job: PassJob): Promise<readonly ScriptRun[]> {
    const { store, workerId, runner } = this.recording;
    if ((await this.#heartbeat?.confirm(session, workerId)) === false) return [];
    const key = this.newToken();
    const claim = { id: job.id as number, token: key };
    const claims = [{ ...claim, state: 'claimed' as const, at: runner.now(), ...(job.seen && { seen: job.seen }) }];
    const [claimed] = await session.scriptJobs.claim(claims);
    if (claimed !== undefined) return [toScriptRun(job, { key, claim, state: runner.state })];
    if (store.fleet !== null) return [];
    const row = (await session.scriptJobs.ofTier(job.script.tier)).find(({ id }) => id === job.id);
    if (row !== undefined && !(await isUnheld(session, row))) return [];
    // In that case nobody else runs it.
    const change = row === undefined ? 'removed' : 'changed';
    throw new StoreUnavailable('changed', `the row of ${job.script.name} was ${change} during its pass`);
  }

  async cancel(run: ScriptRun, reason: string): Promise<void> {
    const { store, runner } = this.recording;
    if (store.fleet !== null) return await this.release([run]);
    const at = runner.now();
    const claim = claimOf(run);
    await this.write(async (session) => {
      await releaseClaims(session, [claim], at);
      const open = await session.scriptJobs.open(run.script.tier);
      const given = open.filter(({ id, claim_token }) => id === claim.id && claim_token === null);
      await cancelWaiting(session, given, { at, reason });
    });
  }

  async readHistory({ name }: ScriptRun): Promise<KnownHistory> {
    const { lastOutcome, ...known } = await this.recording.store.runs.history(name);
    return { ...known, previouslyCrashed: lastOutcome === 'crashed' };
  }

  /**
   * Other machines take over silent runs, so they must know that this one has begun. Without them, its files tell it.
   */
  async begin(run: ScriptRun): Promise<number | null> {
    const { runner, workerId } = this.recording;
    const startedAt = runner.now();
    const heartbeat = this.#heartbeat;
    if (heartbeat === undefined) return startedAt;
    const nothing = { pid: null, startTicks: null, maxRssBytes: null };
    const mayBegin = (session: StoreSession) => heartbeat.confirm(session, workerId);
    const record = () => this.recordBeginning(run, startedAt, nothing, mayBegin);
    // A commit during which the connection is lost may still be stored. Once the database is back, the run begins, or
    // has begun already.
    const hasBegun = await record().catch((error) => {
      if (kindOfStoreFailure(error) !== 'away') throw error;
      return record();
    });
    return hasBegun ? startedAt : null;
  }

  onDurable(notify: NotifyDurable): void {
    this.recording.store.onDurable(notify);
  }
}

/** Whether a job has not ended and no working worker holds it, whatever its row says. */
async function isUnheld(session: StoreSession, { id, state }: ScriptJobRow): Promise<boolean> {
  if (!['queued', 'retrying', 'claimed', 'running'].includes(state)) return false;
  return (await session.claims.ofWorkers()).every(({ job, worker }) => job.id !== id || worker.state !== 'running');
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
  const attempt = async <T>(
    record: (recorder: PlacedRecorder) => Promise<T>,
    otherwise = async (elsewhere: Promise<PlacedRecorder>): Promise<T> => await record(await elsewhere),
  ): Promise<T> => {
    const used = current;
    try {
      return await record(await used);
    } catch (error) {
      if (isDefect(error)) throw error;
      return await otherwise(replaceOnce(used, error));
    }
  };
  return {
    turn: (ended, then) => attempt((recorder) => recorder.turn(ended, then)),
    release: (runs) => attempt((recorder) => recorder.release(runs)),
    cancel: (run, reason) => attempt((recorder) => recorder.cancel(run, reason)),
    moveElsewhere: async (run, error) => {
      const used = current;
      const isThere = (await used).state.path === run.state.path;
      await (isThere ? replaceOnce(used, error) : used);
      // A claim that cannot be given back now is released by the process that finds that this worker has ended.
      await first.release([run]).catch(() => {});
      const { next } = await attempt((recorder) => recorder.turn([], run.job));
      return next[0] ?? null;
    },
    readHistory: (run) => attempt((recorder) => recorder.readHistory(run)),
    begin: (run) =>
      isShared
        ? attempt(
            (recorder) => recorder.begin(run),
            async (elsewhere) => {
              await elsewhere;
              return null;
            },
          )
        : attempt((recorder) => recorder.begin(run)),
    recordProgress: async (run, startedAt, progress) => {
      if (!isShared) return await attempt((recorder) => recorder.recordProgress(run, startedAt, progress));
      // The run goes on, and its end contains everything: a server may be back by then.
      await (await current).recordProgress(run, startedAt, progress).catch(() => {});
    },
    onDurable: (notify) => {
      if (current === begun) first.onDurable(notify);
      else notify(null);
    },
  };
}
