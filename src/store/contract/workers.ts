import type { WorkerRow } from '../schema.ts';
import type { SkipCode, Trigger, WorkerKind } from '../words.ts';

/** A worker as it begins. */
export interface NewWorker {
  readonly kind: WorkerKind;
  /** Null: it processes jobs of the queue. */
  readonly tier: string | null;
  readonly host: string;
  readonly bootId: string | null;
  readonly pid: number;
  readonly startTicks: number | null;
  readonly trigger: Trigger;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly runnerVersion: string;
  readonly nodeVersion: string;
  /** Until when other machines believe that it lives, unless it renews that. Left out, or null: its process tells. */
  readonly leaseExpiresAt?: number | null;
}

export interface WorkerEnd {
  readonly state: 'finished' | 'crashed';
  readonly at: number;
  readonly reason: string | null;
}

/** A pass that has ended or was skipped. */
export interface PassRow {
  readonly id: number;
  readonly state: WorkerRow['state'];
  readonly startedAt: number;
  readonly scheduledFor: number | null;
  readonly skipCode: SkipCode | null;
  readonly reason: string | null;
}

/** A machine of a fleet, which sees its own processes alone, and when it looks. */
export interface SeenFrom {
  readonly host: string;
  readonly at: number;
}

export interface WorkerStore {
  start(worker: NewWorker): Promise<number>;
  /**
   * Adds a worker of the queue, unless `most` of them are working: on a database server, on its machine. Call it in a
   * transaction: workers that begin at the same time see each other.
   *
   * @returns its number, or how many are working
   */
  startOneOf(worker: NewWorker, most: number): Promise<{ readonly id: number } | { readonly living: number }>;
  skip(worker: NewWorker, code: SkipCode, reason: string): Promise<number>;
  /** Records a worker that has ended without the log. */
  addEnded(worker: NewWorker, end: WorkerEnd): Promise<number>;
  /** Only while its row says that it is working. False: somebody else has ended it. */
  end(id: number, end: WorkerEnd): Promise<boolean>;
  /** Only while its row says that it is working. False: somebody else has ended it. */
  heartbeat(id: number, leaseExpiresAt: number): Promise<boolean>;
  /** Extends the lease of a worker that has ended: its runs go on there, and are left alone until then. */
  extendLease(id: number, leaseExpiresAt: number): Promise<void>;
  /** Workers whose rows say that they are working: of a tier or all; on one machine or all. */
  running(tier?: string, host?: string): Promise<WorkerRow[]>;
  /**
   * Workers that may be dead: all; on a fleet, those of this machine, and others only after their lease has expired.
   */
  suspects(seen?: SeenFrom): Promise<WorkerRow[]>;
  byId(ids: readonly number[]): Promise<WorkerRow[]>;
  /** The worker that matches this description. */
  find(worker: NewWorker): Promise<WorkerRow | null>;
  /** A worker's own report in its spool counts more than the discovery that it is dead. */
  correct(id: number, end: WorkerEnd): Promise<void>;
  /** When each tier was last called by schedule, whether it could run or not. */
  lastCalls(): Promise<ReadonlyMap<string, number>>;
  /** Passes of a tier, the newest first: how far back, and of which states. */
  passes(tier: string, filter: PassFilter): Promise<PassRow[]>;
  /**
   * Whether there may be something to rescue: a worker at work, or a job that a worker has.
   *
   * @param seen on a fleet, by whom: workers of other machines count only once their lease has expired, and jobs only
   *   where their worker has ended
   */
  hasOpen(seen?: SeenFrom): Promise<boolean>;
}

export interface PassFilter {
  readonly limit: number;
  readonly scheduledFor?: number | undefined;
  readonly startedFrom?: number | undefined;
  /** Only those of this machine. */
  readonly host?: string | undefined;
  readonly states?: readonly WorkerRow['state'][] | undefined;
}
