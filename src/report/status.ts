import type { Pause } from '../queue/pauses.ts';
import type { QueueStatus } from './queue-status.ts';
import type { RunningRun } from './select-running.ts';
import type { TierHolder, TierState } from './tier-state.ts';

/** How things stand at one moment. */
export interface Status {
  readonly atMs: number;
  /** Oldest first. */
  readonly running: readonly StatusRun[];
  readonly holders: readonly TierHolder[];
  /** In the order that they run in. */
  readonly waiting: readonly WaitingJob[];
  readonly pauses: readonly Pause[];
  readonly queue: QueueStatus;
  /** Shortest period first, those without one last. */
  readonly tiers: readonly TierState[];
  /** There is a log, and it could not be read: what it would tell is not known. */
  readonly isLogUnread: boolean;
  /** Runs were recorded without the log, and wait to be taken into it. */
  readonly hasSpool: boolean;
  /** Logs that could not be read, by the names of their files. */
  readonly setAside: readonly string[];
}

export interface StatusRun extends RunningRun {
  /** What it usually takes; null: it never succeeded. */
  readonly usualDurationMs: number | null;
}

/**
 * `queued`: the worker of its tier comes to it. `deferred`: the next call of any tier does.
 * `retrying`: the first call of any tier after `runAtMs` does.
 */
export type WaitingState = 'queued' | 'deferred' | 'retrying';

export interface WaitingJob {
  readonly script: string;
  readonly tier: string;
  readonly state: WaitingState;
  readonly sinceMs: number;
  readonly runAtMs: number;
  /** How many tries it has had, and how many it may have. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** Why it was deferred, or how its last try ended. */
  readonly reason: string | null;
}
