import type { StateFolder } from '../config/state-folder.ts';
import type { Script } from '../discovery/script.ts';
import type { RunEnd } from '../execution/run-end.ts';
import type { Claim, RunProgress } from '../queue/claim-job.ts';
import type { Verdict } from '../queue/retry-policy.ts';
import type { ScriptHistory } from '../queue/script-history.ts';

/** A script that a pass is to run. */
export interface PassJob {
  /** Null: the log knows nothing of it. */
  readonly id: number | null;
  readonly script: Script;
  readonly scheduledFor: number | null;
}

/** A run that has begun, wherever that is recorded. */
export interface BegunRun extends PassJob {
  /** Its number in the log, else a name that no other run has. */
  readonly runId: number | string;
  readonly attempt: number;
  readonly startedAt: number;
  readonly timeoutMs: number;
  /** Where its files go: beside the record of it. */
  readonly state: StateFolder;
  /** What ends it in the log; null: it did not begin there. */
  readonly claim: Claim | null;
}

/** Where a pass records its runs. */
export interface Journal {
  /** Null: another worker has the job. */
  begin(job: PassJob, timeoutMs: number): Promise<BegunRun | null>;
  readHistory(run: BegunRun): Promise<ScriptHistory>;
  recordProgress(run: BegunRun, progress: RunProgress): Promise<void>;
  /**
   * @param isRetryable false: another try would end alike
   * @returns what becomes of the job; null where that is not known yet, or somebody else has the say
   */
  end(run: BegunRun, end: RunEnd, isRetryable: boolean): Promise<Verdict | null>;
}
