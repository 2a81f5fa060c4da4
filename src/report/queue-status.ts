/** How the queue stands at one moment. */
export interface QueueStatus {
  readonly counts: QueueCounts;
  /** Of jobs that wait, those that nothing in `jobs/queue/` here is for; most jobs first. */
  readonly withoutHandler: readonly UnhandledName[];
  /** How many workers of the queue live. */
  readonly workers: number;
}

/** Jobs that are to be tried again count among those that wait. */
export interface QueueCounts {
  readonly ready: number;
  readonly delayed: number;
  readonly running: number;
  readonly paused: number;
  readonly failed: number;
}

/** How many jobs of a name wait. */
export interface UnhandledName {
  readonly name: string;
  readonly jobs: number;
  /** The handler that may have been meant; null: none has such a name. */
  readonly nearest: string | null;
}

/** Whether there is anything to tell. */
export function isQueueQuiet({ counts, workers }: QueueStatus): boolean {
  return workers === 0 && Object.values(counts).every((count) => count === 0);
}
