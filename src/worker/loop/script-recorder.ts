import type { Script } from '../../discovery/script.ts';
import { releaseClaims } from '../../queue/claim/claim.ts';
import { cancelWaiting } from '../../queue/settle/change-by-event.ts';
import type { SettleContext } from '../../queue/settle/settle.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import { kindOfStoreFailure, StoreUnavailable } from '../../store/failures.ts';
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
  const { name, contentHash } = script;
  return { job, key, claim, state, name, script, contentHash, attempt, dueAt, timeoutMs };
}

/** The run of a job that was claimed as it was queued. */
export function claimedRun(job: PassJob, state: StateFolder): ScriptRun[] {
  const { claim } = job;
  return claim === undefined ? [] : [toScriptRun(job, { key: claim.token, claim, state })];
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

interface ScriptRecording extends Recording {
  readonly heartbeat?: Pick<Heartbeat, 'confirm'> | undefined;
  /** Whether a person watches the runs: {@link SettleContext.isWatched}. Default false. */
  readonly isWatched?: boolean;
}

/** Records the runs of a pass in the log. */
export class ScriptRecorder extends LogRecorder<ScriptRun, PassJob | 'finish'> {
  readonly #heartbeat: Pick<Heartbeat, 'confirm'> | undefined;
  readonly #isWatched: boolean;

  /** @param claims how many of the pass's jobs were claimed when they were queued */
  constructor({ heartbeat, isWatched = false, ...recording }: ScriptRecording, claims = 0) {
    super(recording, claims);
    this.#heartbeat = heartbeat;
    this.#isWatched = isWatched;
  }

  /** The folder of its runs' files. */
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

  /** Gives the claim back in a fleet, where other machines may have the script. */
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
