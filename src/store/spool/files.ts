import { join } from 'node:path';
import type { HandlerDecision } from '../../child/contract.ts';
import type { RetryDelay } from '../../settings/readers.ts';
import type { CrashPolicy } from '../../settings/settings.ts';
import { listNames } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { FinishedRun } from '../schema.ts';
import type { RunStart } from '../shared/run-rows.ts';
import type { ClaimRef } from '../statements/runs.ts';
import type { Trigger, WorkerKind } from '../words.ts';

/**
 * A spool file has one JSON object a line: the worker, its runs, and its end if it came to one. Times are epoch
 * milliseconds; readers ignore unknown keys, and call the file unreadable if a line lacks a known one.
 *
 * Raised when a reader of the version before would misunderstand what is written.
 */
export const SPOOL_VERSION = 2;

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

/** The rules of a job for further tries. */
export interface SpooledPolicy {
  readonly maxAttempts: number;
  readonly delay: RetryDelay;
  readonly onCrash: CrashPolicy | null;
}

/** A run as far as it is known before its end. */
export interface SpooledRun {
  /** Distinguishes it from every other run, for ever: it is replayed once. */
  readonly spoolId: string;
  /** The claim by which the log knows it; null: it began without the log. */
  readonly claim: ClaimRef | null;
  /** Its job, if that was in the log, waiting to be run, before the log was lost. */
  readonly jobId: number | null;
  readonly tier: string | null;
  /** The only machine that its job is for; left out: any. */
  readonly onlyHost?: string;
  /** The time that its job stands for: the start of a period, or the time of a script's own schedule. */
  readonly slot: number | null;
  /** What its row is to say of its beginning. */
  readonly start: Omit<RunStart, 'jobId' | 'workerId' | 'key'>;
  readonly policy: SpooledPolicy;
}

/** A run begins that the log knows nothing of: should its runner die, this is all there is of it. */
interface SpooledBegin extends SpooledRun {
  readonly type: 'begun';
}

/** A run has ended: what settles it once there is a log. Should the log of its claim be gone, its claim is ignored. */
export interface SpooledEnd extends SpooledRun {
  readonly type: 'ended';
  readonly end: FinishedRun;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
  /** The handler's result as JSON; null: none. */
  readonly result: string | null;
  /** A handler's decision about its job. */
  readonly decision: HandlerDecision | null;
}

/** The worker's own end: the last line. */
export interface SpoolFinish {
  readonly type: 'finished';
  readonly finishedAt: number;
  /** Why it did not start everything; null: it did. */
  readonly reason: string | null;
}

/** The entries that are added to a spool file one at a time. */
export type SpoolEntry = SpooledBegin | SpooledEnd;

export type SpoolRecord = SpoolHeader | SpoolEntry | SpoolFinish;

/** One file of the spool. */
export interface SpoolFile {
  readonly path: string;
  /** Its worker came to its end; else it may still be at work. */
  readonly isClosed: boolean;
}

const OPEN = '.part';
const CLOSED = '.jsonl';
const UNREADABLE = '.unreadable';

/** Names of spool files. A file of any other name has an unknown meaning, and is left alone. */
const spoolName = /^\d+-\d+-[a-z\d]+\.(?:part|jsonl)$/;

/** A path that sorts by time. After a clock was set back, two paths may be in the wrong order. */
export function newSpoolPath(
  { spool }: StateFolder,
  { startedAt, pid }: Pick<SpoolingWorker, 'startedAt' | 'pid'>,
): string {
  const time = String(startedAt).padStart(13, '0');
  const random = Math.random().toString(36).slice(2, 10);
  return join(spool, `${time}-${pid}-${random}${OPEN}`);
}

/** The path of a spool file after its worker has ended. */
export function closedPath(path: string): string {
  return path.slice(0, -OPEN.length) + CLOSED;
}

/** The path of a spool file that could not be read. */
export function unreadablePath(path: string): string {
  return path + UNREADABLE;
}

/** The spool's files, oldest first. */
export function listSpoolFiles({ spool }: StateFolder): SpoolFile[] {
  return listNames(spool)
    .filter((name) => spoolName.test(name))
    .toSorted()
    .map((name) => ({ path: join(spool, name), isClosed: name.endsWith(CLOSED) }));
}

/** Whether there may be something to take in. Asked at every start; a stray file in the folder is none of the spool's. */
export function hasSpool(state: StateFolder): boolean {
  try {
    return listSpoolFiles(state).length > 0;
  } catch {
    // An unreadable folder has no files that could be replayed.
    return false;
  }
}

/** Names of files that were set aside: a person has to look at them. */
export function listUnreadableSpoolFiles({ spool }: StateFolder): string[] {
  return listNames(spool).filter((name) => name.endsWith(UNREADABLE));
}
