import type { JobState, PauseKind, StoredEvent } from '../words.ts';

export interface NewEvent {
  readonly at: number;
  readonly event: StoredEvent;
  readonly workerId?: number | null;
  readonly jobId?: number | null;
  readonly runId?: number | null;
  readonly detail?: string | null;
  /** The caller of the API who asked for it. */
  readonly actor?: string | null;
}

export interface EventStore {
  record(events: readonly NewEvent[]): Promise<void>;
  /** When the newest worker, job or event was recorded, the latest of them; null: the log is empty. */
  newestAt(): Promise<number | null>;
}

export interface Pause {
  /** `*`: everything; a tier's name; a script's: `hourly/clean-tmp`; `queue/` and a glob of job names. */
  readonly name: string;
  readonly kind: PauseKind;
  /** Epoch milliseconds; null: until it is resumed. */
  readonly until: number | null;
  readonly createdAt: number;
}

export interface PauseStore {
  /** Those in force at that instant, by name. */
  inForce(at: number): Promise<Pause[]>;
  /** Replaces one of the same name. */
  set(pause: Pause): Promise<void>;
  /** Removes this one, or all; those that were removed. */
  remove(name: string | null): Promise<Pause[]>;
}

/** Steps of pruning; each deletes at most `limit` rows. */
export interface PruneStore {
  /** What there is to be pruned: one look, which waits for nobody. */
  look(before: Expiry): Promise<Prunable>;
  /** Jobs of the queue in these states that ended before, the longest ago first, with their runs. */
  endedJobs(states: readonly JobState[], before: number, limit: number): Promise<PruneStep>;
  /** Runs that began before, of scripts and of jobs that repeat: those have no end to go by. */
  runs(before: Pick<Expiry, 'succeeded' | 'failed'>, limit: number): Promise<PruneStep>;
  /** The oldest of what has ended, whatever its age: to come below a size. */
  oldest(limit: number): Promise<PruneStep>;
  events(before: number, limit: number): Promise<PruneStep>;
  /** Workers that ended before; one stays as long as one of its runs does. */
  workers(before: number, limit: number): Promise<PruneStep>;
  /** Bytes of the log in use, output files included; free space inside the file does not count. */
  usedBytes(): Promise<number>;
  /** How many rows remain for `oldest` to delete: runs, or ended jobs if there are no runs. */
  rows(): Promise<number>;
  /** Gives up to this many free pages back to the disk, unless others are writing. */
  shrink(pages: number): Promise<void>;
}

/** From before which instant it goes. */
export interface Expiry {
  readonly succeeded: number;
  readonly failed: number;
  /** Of machines: when they were seen last. */
  readonly seen: number;
}

/** Whether there is anything that its step would delete. */
export interface Prunable {
  readonly jobs: boolean;
  readonly runs: boolean;
  readonly events: boolean;
  readonly workers: boolean;
  readonly machines: boolean;
  readonly usedBytes: number;
}

export interface PruneStep {
  readonly deleted: number;
  readonly outputFiles: readonly string[];
}
