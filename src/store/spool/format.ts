import type { HandlerDecision } from '../../child/contract.ts';
import type { RetryDelay } from '../../settings/readers.ts';
import type { CrashPolicy } from '../../settings/settings.ts';
import type { FinishedRun } from '../schema.ts';
import type { Trigger, WorkerKind } from '../words.ts';

/**
 * A spool file has one JSON object a line: the worker, its runs, and its end if it came to one. Times are epoch
 * milliseconds; readers ignore unknown keys, and call the file unreadable if a line lacks a known one.
 *
 * Raised when a reader of the version before would misunderstand what is written.
 */
export const SPOOL_VERSION = 1;

/** A worker that has no log to write to, and why. */
export interface SpoolingWorker {
  readonly kind: WorkerKind;
  readonly tier: string | null;
  readonly host: string;
  readonly bootId: string | null;
  readonly pid: number;
  readonly startTicks: number | null;
  readonly scheduledFor: number | null;
  /** With its process, that by which its row is found again if it had begun in the log. */
  readonly startedAt: number;
  readonly trigger: Trigger;
  readonly runnerVersion: string;
  readonly nodeVersion: string;
  /** Why there is no log: what follows "because". */
  readonly reason: string;
}

/** The first line of a spool file. */
export interface SpoolHeader extends SpoolingWorker {
  readonly type: 'worker';
  readonly version: typeof SPOOL_VERSION;
  readonly spoolId: string;
}

/** The properties of a run that are known before it ends. */
export interface SpoolRun {
  /** Distinguishes it from every other run, for ever: it is replayed once. */
  readonly spoolId: string;
  /** Its job, if that was in the log, waiting to be run, before the log was lost. */
  readonly jobId: number | null;
  readonly script: string;
  readonly tier: string | null;
  /** The only machine that its job is for; left out: any. */
  readonly onlyHost?: string;
  readonly attempt: number;
  /** For a script: when its period began, or the time of its own schedule. */
  readonly scheduledFor: number | null;
  /** When a script was to begin; null: not known. An earlier version has left it out, and meant the other. */
  readonly dueAt?: number | null;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
  readonly contentHash: string | null;
}

/** A run begins that the log knows nothing of: should its runner die, this is all there is of it. */
interface SpooledBegin extends SpoolRun {
  readonly type: 'begun';
}

/** A whole run that the log knows nothing of. */
export interface SpooledRun extends SpoolRun {
  readonly type: 'run';
  readonly run: FinishedRun;
}

/** By what the log knows a run that began there. */
export interface SpooledClaim {
  readonly id: number;
  readonly token: string;
  /** Its row, if it had one. */
  readonly runId: number | null;
}

/** The job's rules for further attempts. */
export interface SpooledPolicy {
  readonly maxAttempts: number;
  readonly delay: RetryDelay;
  readonly onCrash: CrashPolicy | null;
}

/** The end of a run that had begun in the log. Should that log be gone, it is a run like any other. */
export interface SpooledEnd extends SpoolRun {
  readonly type: 'end';
  readonly claim: SpooledClaim;
  readonly policy: SpooledPolicy;
  readonly isRetryable: boolean;
  readonly run: FinishedRun;
  /** JSON that a handler gave back; left out: it gave none. */
  readonly result?: string | null;
  /** A handler's decision about its job. */
  readonly decision?: HandlerDecision | null;
}

/** The worker's own end: the last line. */
export interface SpoolFinish {
  readonly type: 'finished';
  readonly finishedAt: number;
  /** Why it did not start everything; null: it did. */
  readonly reason: string | null;
}

/** The entries that are added to a spool file one at a time. */
export type SpoolEntry = SpooledBegin | SpooledRun | SpooledEnd;

export type SpoolRecord = SpoolHeader | SpoolEntry | SpoolFinish;
