import { isFailure } from '../store/outcomes.ts';
import type { WorkerEvents } from '../worker/worker-events.ts';

/** How the runs of a worker have ended so far. */
export interface RunCounts {
  readonly succeeded: number;
  readonly failed: number;
  readonly released: number;
}

/** Counts them as they end. */
export function countRuns(events: WorkerEvents): RunCounts {
  const counts = { succeeded: 0, failed: 0, released: 0 };
  events.on('run-finished', ({ end: { outcome } }) => {
    if (outcome === 'succeeded') counts.succeeded += 1;
    else if (isFailure(outcome)) counts.failed += 1;
    else counts.released += 1;
  });
  return counts;
}
