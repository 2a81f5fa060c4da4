import prettyMilliseconds from 'pretty-ms';
import type { StopRequest } from '../stop-request.ts';
import type { FileWatch } from './file-watch.ts';
import type { WorkRequest } from './work-request.ts';

/** Whether a worker goes on taking jobs. */
export interface TakeRules {
  /** Counts the job that is going to be asked for; false: none is to be taken, at least not now. */
  mayTake(): boolean;
  /** Whether the job that was asked for was there. */
  settle(isTaken: boolean): void;
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
  let asked = 0;
  const mostJobs = maxJobs ?? Number.POSITIVE_INFINITY;
  const leftMs = (): number =>
    forMs === null ? Number.POSITIVE_INFINITY : startedAt + forMs - performance.now();
  return {
    leftMs,
    mayTake: () => {
      if (leftMs() <= 0) stop.startNothing(`its time of ${prettyMilliseconds(forMs ?? 0)} is over`);
      if (stop.reason !== null || taken + asked >= mostJobs) return false;
      asked += 1;
      return true;
    },
    settle: (isTaken) => {
      asked -= 1;
      taken += isTaken ? 1 : 0;
      if (taken >= mostJobs)
        stop.startNothing(`it has taken ${taken} ${taken === 1 ? 'job' : 'jobs'}`);
    },
    look: () => {
      const changed = files.findChanged();
      if (changed !== null) stop.startNothing(`${changed} has changed`);
      if (maxMemoryBytes !== null && readMemoryBytes() > maxMemoryBytes) {
        stop.startNothing('it and its children hold more memory than they may (--max-memory)');
      }
    },
  };
}
