import type { ActivityLog, WorkerRow } from '../schema.ts';
import type { JobState } from '../words.ts';

/** A run, or what counts like one, as far as metrics are made of it. */
export type MeasuredRow = ActivityLog['uncounted'];

/** A worker that was there in an hour. */
export type PresentWorker = Pick<WorkerRow, 'id' | 'kind' | 'tier' | 'state' | 'started_at' | 'finished_at'>;

/** The figures of a script or handler: `hourly/clean-tmp`, `queue/mail/welcome`. */
export type ScriptMetrics = Omit<ActivityLog['metrics'], 'script_id'> & { readonly name: string };

export type WorkerMetrics = ActivityLog['worker_metrics'];

/** Jobs of a handler that are due and wait. */
export interface WaitingJobs {
  readonly name: string;
  readonly jobs: number;
  /** When the first of them was due. */
  readonly since: number;
}

/** From the first instant on, before the second one. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

/** Jobs of a handler that were added in an hour. */
export interface AddedJobs {
  /** With `queue/` before it. */
  readonly name: string;
  /** When the hour begins. */
  readonly hour: number;
  readonly jobs: number;
}

/** Rows that come one page after the other, as there may be a million. */
export interface MeasuredPage {
  readonly rows: readonly MeasuredRow[];
  /** By which the next page is asked for; null: there is none. */
  readonly next: PagePlace | null;
}

/** The end of a page; only the store knows its meaning. */
export type PagePlace = readonly number[];

/** Hours begin at whole hours of UTC and end before the next one. */
export interface MetricStore {
  /**
   * Until the transaction ends nobody else counts, or writes rows of hours that may be counted. Call it first in the
   * transaction.
   */
  lock(): Promise<void>;
  /** Everything before this time is counted; null: nothing is. */
  countedUntil(): Promise<number | null>;
  /** Sets the time up to which all is counted, for good: counts whose rows are gone are deleted. */
  setCountedUntil(at: number): Promise<void>;
  /** The first instant from this one on at which anything began, ended or was added; null: none. */
  nextAt(from: number): Promise<number | null>;
  /** Runs that were active or ended in the span, and jobs that failed without a run; about `limit` at once. */
  measured(span: Span, after: PagePlace | null, limit: number): Promise<MeasuredPage>;
  /** By handler and hour. */
  added(span: Span): Promise<AddedJobs[]>;
  /** The beginnings and ends before this instant that no row tells any more, or that came too late. */
  uncounted(before: number, after: PagePlace | null, limit: number): Promise<MeasuredPage>;
  /** Workers that were there, and calls that were skipped. */
  workers(span: Span): Promise<PresentWorker[]>;
  /** Jobs that are due and waiting now, among those that were due at that instant. */
  waiting(at: number): Promise<WaitingJobs[]>;
  /** Hours that begin in this span, of these scripts or of all; by script, the oldest first. */
  read(span: Span, names: readonly string[] | null): Promise<ScriptMetrics[]>;
  readWorkers(span: Span): Promise<WorkerMetrics[]>;
  /** Replaces the earlier figures of the same hours. */
  write(scripts: readonly ScriptMetrics[], workers: readonly WorkerMetrics[]): Promise<void>;
  /** Deletes hours that began before; how many rows. */
  prune(before: number, limit: number): Promise<number>;
}

/** The questions that health checks ask the log; each takes a few steps into an index. */
/** The thresholds from which a glance finds something suspicious. UTC epoch milliseconds. */
export interface GlanceFrom {
  readonly at: number;
  /** Runs in progress that have begun by then. */
  readonly runningSince: number;
  readonly failedSince: number;
  readonly fewestFailed: number;
  readonly crashedSince: number;
  readonly fewestCrashes: number;
  /** Messages that were tried, and made by then. */
  readonly undeliveredSince: number;
}

/** The result of a glance at the log. */
export interface Glance {
  /** Something may be wrong with runs, the queue, workers or messages, or is known to be with what checks look at. */
  readonly isSuspicious: boolean;
  readonly tiers: readonly TierGlance[];
}

export interface TierGlance extends Pick<TierCallRow, 'tier' | 'calledAt' | 'isDue'> {
  /** Whether its last call found the lock held; null: it was never called. */
  readonly isHeld: boolean | null;
  /** When the oldest of its scripts that do not run now was last tried or queued; null: no such script. */
  readonly idleSince: number | null;
}

export interface CheckStore {
  /** How each tier that was ever called stands. */
  tiers(): Promise<TierCallRow[]>;
  /** When the oldest call that is known was made by schedule; null: none was. */
  firstCall(): Promise<number | null>;
  /** The one row of each script. */
  scripts(): Promise<ScriptStandRow[]>;
  /** Runs that go on, the oldest first, with their workers; not those of who is no worker. */
  running(): Promise<RunningRow[]>;
  /** Jobs of the queue that are due, by name, of the `limit` that are taken next. */
  due(at: number, limit: number): Promise<DueJobsRow[]>;
  /** How many jobs of the queue have ended like this since then, counted up to `limit`. */
  ended(state: 'finished' | 'failed', since: number, limit: number): Promise<number>;
  /** When a worker last began to process jobs of the queue; null: none ever has. */
  lastQueueWork(): Promise<number | null>;
  /** Workers that are believed to process jobs of the queue. */
  queueWorkers(): Promise<WorkerIdentityRow[]>;
  /** Whether somebody who is no worker of the runner has a job of the queue. */
  isClaimedOutside(): Promise<boolean>;
  /** Whether anything is known to be wrong, other than that scripts fail. */
  hasIncidents(): Promise<boolean>;
  /** Workers that have died since then, the newest first. */
  crashed(since: number): Promise<CrashedWorkerRow[]>;
}

export interface TierCallRow {
  readonly tier: string;
  /** Its last call by schedule, skipped ones too; null: it was only called by hand. */
  readonly calledAt: number | null;
  /** By the one line for all tiers. */
  readonly isDue: boolean;
  /** In how many periods in a row calls have found the lock held by an earlier pass, and since when. */
  readonly held: number;
  readonly heldSince: number | null;
}

export interface ScriptStandRow {
  readonly name: string;
  readonly tier: string;
  readonly state: JobState;
  /** When it was queued, or is tried again. */
  readonly runAt: number;
  /** When its last try began. */
  readonly startedAt: number | null;
  /** When it was first queued. */
  readonly createdAt: number;
  readonly reason: string | null;
}

/** Which process a worker is. */
export interface WorkerIdentityRow {
  readonly pid: number;
  readonly startTicks: number | null;
  readonly host: string;
  readonly bootId: string | null;
}

/** A run that goes on, with the process of its worker. */
export interface RunningRow extends WorkerIdentityRow {
  readonly id: number;
  readonly script: string;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
}

export interface DueJobsRow {
  readonly name: string;
  readonly jobs: number;
  /** Since when the first of them is due. */
  readonly oldest: number;
}

export interface CrashedWorkerRow {
  /** Null: it processed jobs of the queue. */
  readonly tier: string | null;
  readonly finishedAt: number;
  readonly reason: string | null;
}
