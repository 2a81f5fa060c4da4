import type { Script } from '../../discovery/script.ts';
import { type RunEnd, toFinishedRun } from '../../execution/result/result.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import { beginRun } from '../../queue/claim/claim.ts';
import { policyOf, type RetryDecision } from '../../queue/settle/retry-policy.ts';
import { type RunToSettle, settleRuns } from '../../queue/settle/settle.ts';
import type { Runner } from '../../settings/settings.ts';
import type { ClaimRef, RunStart, Store } from '../../store/contract.ts';

/** A script that a pass is to run. */
export interface PassJob {
  /** Null: the log knows nothing of it. */
  readonly id: number | null;
  readonly script: Script;
  readonly scheduledFor: number | null;
  /** 1 for the first try. */
  readonly attempt: number;
}

/** A run that has begun, wherever that is recorded. */
export interface BegunRun extends PassJob {
  /** By which its files and its process are found. */
  readonly key: string;
  readonly startedAt: number;
  readonly timeoutMs: number;
  /** Where its files go: beside the record of it. */
  readonly state: StateFolder;
  /** What settles it in the log; null: it did not begin there. */
  readonly claim: ClaimRef | null;
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

/** A run whose end is recorded. */
export interface RecordedRun {
  /** What becomes of the job; null where that is not known yet, or somebody else has the say. */
  readonly decision: RetryDecision | null;
  /** Its number in the log; null: it is not there, or not yet. */
  readonly runId: number | null;
}

/** Where a pass records its runs. */
export interface RunRecorder {
  /** Null: another worker has the job. */
  begin(job: PassJob, timeoutMs: number): Promise<BegunRun | null>;
  readHistory(run: BegunRun): Promise<ScriptHistory>;
  /** To be called once the run has lasted a moment: from then on it is seen by others. */
  recordProgress(run: BegunRun, progress: RunProgress): Promise<void>;
  /** @param isRetryable false: another try would end alike */
  end(run: BegunRun, end: RunEnd, isRetryable: boolean): Promise<RecordedRun>;
  /** Calls back once all that was recorded by now survives a power loss. */
  onDurable(notify: () => void): void;
}

/** Records runs in the activity log. */
export function createStoreRecorder(
  store: Store,
  workerId: number,
  { state, now, settings }: Pick<Runner, 'state' | 'now' | 'settings'>,
): RunRecorder {
  let claims = 0;
  /** Rows of runs that have lasted long enough to have one. */
  const rows = new Map<string, number>();
  const beginRow = async (run: BegunRun, progress: RunProgress): Promise<void> => {
    const start = { ...startOf(run, workerId), ...progress };
    const claim = claimOf(run);
    const row = await store.transaction((session) => beginRun(session, claim, start), 'soon');
    if (row !== null) rows.set(run.key, row);
  };
  return {
    begin: async (job, timeoutMs) => {
      const token = `${workerId}.${++claims}`;
      const claim = { id: job.id as number, token };
      const startedAt = now();
      const [claimed] = await store.transaction(
        (session) => session.scriptJobs.claim([{ ...claim, state: 'claimed', at: startedAt }]),
        'soon',
      );
      if (claimed === undefined) return null;
      return { ...job, key: token, startedAt, timeoutMs, state, claim };
    },
    readHistory: async ({ script }) => {
      const { lastSuccess, lastOutcome } = await store.runs.history(script.name);
      return { lastSuccess, previouslyCrashed: lastOutcome === 'crashed' };
    },
    recordProgress: async (run, progress) => {
      const rowId = rows.get(run.key);
      if (rowId === undefined) await beginRow(run, progress);
      else await store.runs.progress({ runId: rowId, jobId: claimOf(run).id }, progress);
    },
    end: async (run, end, isRetryable) => {
      const told: RunToSettle = {
        ...{ claim: claimOf(run), start: startOf(run, workerId), runId: rows.get(run.key) ?? null },
        ...{ end: toFinishedRun(end), result: null, decision: null },
        ...{ isRetryable, policy: policyOf(run.script.options) },
      };
      rows.delete(run.key);
      const { missedCap } = settings.queue;
      const [settled] = await store.retryWhenFull(() =>
        store.transaction((session) => settleRuns(session, [told], { missedCap }), 'soon'),
      );
      return settled ?? { decision: null, runId: null };
    },
    onDurable: (notify) => store.onDurable(notify),
  };
}

function startOf(run: BegunRun, workerId: number): RunStart {
  const { id, key, script, attempt, scheduledFor, startedAt, timeoutMs } = run;
  const { name, contentHash } = script;
  const jobId = id as number;
  return {
    ...{ jobId, workerId, key, script: name, contentHash },
    ...{ attempt, scheduledFor, startedAt, timeoutMs },
  };
}

function claimOf({ script, claim }: BegunRun): ClaimRef {
  if (claim === null) throw new Error(`${script.name} did not begin in the log.`);
  return claim;
}

/** The log's recorder, and what takes its place should the log be lost on the way. */
interface Failover {
  readonly store: RunRecorder;
  /** Whether an error means that the log is lost: any other is a defect. */
  isLost(error: unknown): boolean;
  /** Called once, at the first such error. @throws when there is no other place either */
  replace(error: unknown): Promise<RunRecorder>;
}

/** Goes on elsewhere when the log is lost in the middle of a pass, and stays there. */
export function createFailoverRecorder({ store, isLost, replace }: Failover): RunRecorder {
  let replacement: Promise<RunRecorder> | null = null;
  const attempt = async <T>(record: (recorder: RunRecorder) => Promise<T>): Promise<T> => {
    if (replacement !== null) return await record(await replacement);
    try {
      return await record(store);
    } catch (error) {
      if (!isLost(error)) throw error;
      // With several scripts at a time, another one may have found it lost meanwhile.
      replacement ??= replace(error);
      return await record(await replacement);
    }
  };
  return {
    begin: (job, timeoutMs) => attempt((recorder) => recorder.begin(job, timeoutMs)),
    readHistory: (run) => attempt((recorder) => recorder.readHistory(run)),
    recordProgress: (run, progress) =>
      attempt((recorder) => recorder.recordProgress(run, progress)),
    end: (run, end, isRetryable) => attempt((recorder) => recorder.end(run, end, isRetryable)),
    onDurable: (notify) => (replacement === null ? store.onDurable(notify) : notify()),
  };
}
