import prettyMilliseconds from 'pretty-ms';
import type { StopRequest } from '../stop-request.ts';
import type { FileWatch } from './file-watch.ts';
import type { WorkRequest } from './work-request.ts';

/** Whether a worker goes on taking jobs. */
export interface TakeRules {
  /** Counts the job that is going to be taken; false: none is to be taken any more. */
  mayTake(): boolean;
  /** A job that was counted was not there. */
  giveBack(): void;
  /** How long the worker still takes jobs; infinite without a limit. */
  leftMs(): number;
  /** Looks at what is too dear to be looked at for each job. */
  look(): void;
}

interface Ruled {
  readonly request: WorkRequest;
  readonly stop: StopRequest;
  readonly files: FileWatch;
  readonly startedAt: number;
  /** Resident memory of the worker with its children. */
  readonly readMemoryBytes: () => number;
}

export function createTakeRules({
  request,
  stop,
  files,
  startedAt,
  readMemoryBytes,
}: Ruled): TakeRules {
  const { forMs, maxJobs, maxMemoryBytes } = request;
  let taken = 0;
  const leftMs = (): number =>
    forMs === null ? Number.POSITIVE_INFINITY : startedAt + forMs - performance.now();
  return {
    leftMs,
    mayTake: () => {
      if (leftMs() <= 0) stop.startNothing(`its time of ${prettyMilliseconds(forMs ?? 0)} is over`);
      if (maxJobs !== null && taken >= maxJobs) stop.startNothing(`it has taken ${maxJobs} jobs`);
      if (stop.reason !== null) return false;
      taken += 1;
      return true;
    },
    giveBack: () => {
      taken -= 1;
    },
    look: () => {
      const changed = files.findChanged();
      if (changed !== null) stop.startNothing(`${changed} has changed`);
      if (maxMemoryBytes !== null && readMemoryBytes() > maxMemoryBytes) {
        stop.startNothing('it holds more memory than it may (--max-memory)');
      }
    },
  };
}
