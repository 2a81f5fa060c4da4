import type { Script } from '../../discovery/script.ts';
import { type RunEnd, toFinishedRun } from '../../execution/result/result.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import type { QueuedJob } from '../../queue/add/scripts.ts';
import {
  type Claim,
  claimJob,
  type RunProgress,
  recordProgress,
} from '../../queue/claim/script-claim.ts';
import { readScriptHistory, type ScriptHistory } from '../../queue/read/history.ts';
import { policyOf, type Verdict } from '../../queue/settle/retry-policy.ts';
import { finishJob } from '../../queue/settle/script-run.ts';
import type { Runner } from '../../settings/settings.ts';
import type { Store } from '../../store/store.ts';

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

/** Records runs in the activity log. */
export function createLogJournal(
  store: Store,
  workerId: number,
  { state, now }: Pick<Runner, 'state' | 'now'>,
): Journal {
  return {
    begin: async (job, timeoutMs) => {
      const claiming = { workerId, at: now(), timeoutMs };
      const claim = await store.withoutSync((db) => claimJob(db, job as QueuedJob, claiming));
      return claim === null ? null : { ...job, ...claim, timeoutMs, state, claim };
    },
    readHistory: ({ script, runId }) => readScriptHistory(store.db, script.name, runId as number),
    recordProgress: ({ runId }, progress) =>
      store.withoutSync((db) => recordProgress(db, runId as number, progress)),
    end: async ({ script, claim }: BegunRun, end, isRetryable) => {
      if (claim === null) throw new Error(`${script.name} did not begin in the log.`);
      const policy = policyOf(script.options);
      const ended = { claim, policy, run: toFinishedRun(end), isRetryable };
      return await store.retryWhenFull(() => finishJob(store.db, ended, { workerId }));
    },
  };
}

/** The log's journal, and what takes its place should the log be lost on the way. */
interface Failover {
  readonly log: Journal;
  /** Whether an error means that the log is lost: any other is a defect. */
  isLost(error: unknown): boolean;
  /** Called once, at the first such error. @throws when there is no other place either */
  replace(error: unknown): Promise<Journal>;
}

/** Goes on elsewhere when the log is lost in the middle of a pass, and stays there. */
export function createFailoverJournal({ log, isLost, replace }: Failover): Journal {
  let replacement: Promise<Journal> | null = null;
  const attempt = async <T>(record: (journal: Journal) => Promise<T>): Promise<T> => {
    if (replacement !== null) return await record(await replacement);
    try {
      return await record(log);
    } catch (error) {
      if (!isLost(error)) throw error;
      // With several scripts at a time, another one may have found it lost meanwhile.
      replacement ??= replace(error);
      return await record(await replacement);
    }
  };
  return {
    begin: (job, timeoutMs) => attempt((journal) => journal.begin(job, timeoutMs)),
    readHistory: (run) => attempt((journal) => journal.readHistory(run)),
    recordProgress: (run, progress) => attempt((journal) => journal.recordProgress(run, progress)),
    end: (run, end, isRetryable) => attempt((journal) => journal.end(run, end, isRetryable)),
  };
}
