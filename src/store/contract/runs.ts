import type { ActivityLog, FinishedRun } from '../schema.ts';
import type { JobState, Outcome } from '../words.ts';

/** By what a claim is known to whoever settles it. */
export interface ClaimRef {
  readonly id: number;
  readonly token: string;
}

/** The facts of a run that are known from its beginning. */
export interface RunStart {
  readonly jobId: number;
  readonly workerId: number | null;
  /** Its claim's token, by which its files are named; null: it has no claim of a worker. */
  readonly key: string | null;
  /** `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly script: string;
  /** SHA-256, hex; null: unknown. */
  readonly contentHash: string | null;
  readonly attempt: number;
  /** When it was due. */
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
}

/** A run that lasts: its row is there before its end. */
export interface LastingRun extends RunStart {
  readonly pid: number | null;
  readonly startTicks: number | null;
  readonly maxRssBytes: number | null;
}

export interface StartedRunRow {
  readonly id: number;
  readonly jobId: number;
  readonly key: string | null;
  readonly script: string;
  readonly startedAt: number;
  readonly attempt: number;
  readonly timeoutMs: number | null;
  readonly pid: number | null;
  readonly startTicks: number | null;
  readonly maxRssBytes: number | null;
}

export interface EndedRun extends RunStart {
  /** Its row, if it has one; null: it is written now. */
  readonly runId: number | null;
  readonly end: FinishedRun;
  /** State in which it leaves its job; null: finished. */
  readonly leftJob: JobState | null;
  readonly spoolId?: string | null;
}

/** A run that has succeeded and has no row yet, of a job that was claimed and not noted as begun. */
export interface FinishedClaim extends Omit<EndedRun, 'runId' | 'leftJob' | 'spoolId'> {
  readonly key: string;
  /** JSON; null: it gave none back. */
  readonly result: string | null;
}

/** A run that has a row. The number alone may be another run's by now: jobs are deleted with their runs. */
export interface RunRef {
  readonly runId: number;
  readonly jobId: number;
}

/** The past of a script, from its newest runs. */
export interface RunHistory {
  /** When its last success began, and how long that took. */
  readonly lastSuccess: number | null;
  readonly lastDurationMs: number | null;
  readonly lastOutcome: Outcome | null;
}

export interface RunStore {
  /** Writes rows of runs that go on; their numbers. */
  start(runs: readonly LastingRun[]): Promise<number[]>;
  /** Records the progress of a run that goes on. */
  progress(run: RunRef, seen: { pid: number; startTicks: number | null; maxRssBytes: number | null }): Promise<void>;
  /** Writes how runs ended; their numbers. */
  end(runs: readonly EndedRun[]): Promise<number[]>;
  /**
   * Ends runs that have succeeded, and finishes their jobs; returns the numbers of the runs. Null: the end may have
   * further consequences, or its claim was lost; it must be settled like any other. An engine returns null for all if
   * this saves nothing.
   */
  finish(runs: readonly FinishedClaim[]): Promise<(number | null)[]>;
  /** The job's run that goes on, if it has a row. */
  running(jobId: number): Promise<StartedRunRow | null>;
  /** The run of a worker's claim, whatever has become of it, if it has a row. */
  ofClaim(claim: ClaimRef): Promise<number | null>;
  /** Keeps what a run printed whose claim was lost, unless its output is known. */
  addOutput(run: RunRef, end: FinishedRun): Promise<void>;
  history(script: string): Promise<RunHistory>;
  /**
   * Whether an earlier try of the job died with its worker, or its lease expired. For a repeating job only the tries of
   * the present time count: they begin with the last first try that was not given back.
   */
  hasTryCrashed(jobId: number): Promise<boolean>;
  /** When the job's last successful run began; null: it has none. */
  lastSuccess(jobId: number): Promise<number | null>;
  /** How the job's last run ended; null: it has none. */
  lastOutcome(jobId: number): Promise<Outcome | null>;
  /** Durations of the script's last successful runs, newest first. */
  durations(script: string, limit: number): Promise<number[]>;
  /** Names of the files in the output folder that runs have. */
  outputFiles(): Promise<string[]>;
  /** Those of these spool ids that the log has. */
  knownSpoolIds(ids: readonly string[]): Promise<string[]>;
}

/** The values by which a successful run is compared. Unknown values are null. */
export interface MeasuredRun {
  readonly id: number;
  readonly script: string;
  readonly startedAt: number;
  readonly durationMs: number | null;
  readonly maxRssBytes: number | null;
  readonly outputBytes: number | null;
  readonly counts: Readonly<Record<string, number>>;
}

export type Deviation = Omit<ActivityLog['deviations'], 'run_id'>;

/** A change of a script's content since its last success. Epoch milliseconds. */
export interface ContentChange {
  /** When the new content first ran. */
  readonly changedAt: number;
  /** Start of the last successful run with another content. */
  readonly lastSuccessAt: number;
}

export interface UsualStore {
  /** Successful runs that were not compared yet, the oldest first. */
  uncompared(limit: number): Promise<MeasuredRun[]>;
  /** A script's last successful runs that began before, newest first; it looks no further back than 10 times as many. */
  successes(script: string, before: number, limit: number): Promise<MeasuredRun[]>;
  /** Writes down what of these runs was unusual: they are not compared again. */
  setCompared(runs: readonly { readonly id: number; readonly deviations: readonly Deviation[] }[]): Promise<void>;
  /** Runs that go on, the oldest first; those of dead workers too. */
  running(): Promise<{ readonly id: number; readonly script: string; readonly startedAt: number }[]>;
  /** The change of a run, or of a script's newest run; null: its content is unchanged, or unknown. */
  change(of: { readonly runId: number } | { readonly script: string }): Promise<ContentChange | null>;
}
