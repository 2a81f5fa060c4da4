/** What a worker of the queue is to do, and for how long. */
export interface WorkRequest {
  /** Globs over job names; none: all that there are handlers of. */
  readonly patterns: readonly string[];
  /** How many jobs at the same time. */
  readonly concurrency: number;
  /** Finds its own number of jobs at the same time, up to `concurrency`. */
  readonly isAdaptive: boolean;
  /** After that no further job is taken; null: no limit. */
  readonly forMs: number | null;
  /** How long to wait for a job when none is due; null: to the end of `forMs`. */
  readonly waitMs: number | null;
  readonly maxJobs: number | null;
  /** The worker's own resident memory, with that of its children, beyond which it takes no more. */
  readonly maxMemoryBytes: number | null;
  /** Load average above which no job is taken; null: as the settings say. */
  readonly maxLoad: number | null;
  /** Whether jobs whose name has no handler here fail, instead of waiting for a machine that has one. */
  readonly failsUnknown: boolean;
  /** Files whose change makes the worker finish: a deploy. */
  readonly watchedFiles: readonly string[];
}
