import { readStartTicks } from '../process/process-identity.ts';
import type { BegunRun, Journal } from './journal.ts';
import type { WorkerEvents } from './worker-events.ts';

export interface ProgressRecorder {
  start(pid: number): void;
  /** Tells of the most memory that the run was seen with so far. */
  sample(maxRssBytes: number): void;
  /** To be awaited once the run has ended. */
  settle(): Promise<void>;
}

/** Where it is written down. */
export interface ProgressTeller {
  readonly journal: Pick<Journal, 'recordProgress'>;
  readonly events: WorkerEvents;
}

/** Most scripts are over before anybody could ask who they are; a write right after a fork is dear. */
const RECORD_AFTER_MS = 100;

/** How old the last memory seen may be of a run that dies with its runner. */
const REPEAT_MS = 10_000;

/** Writes down which process a run is, for the report and for whoever finds it without its runner. */
export function createProgressRecorder(
  { journal, events }: ProgressTeller,
  run: BegunRun,
): ProgressRecorder {
  let timer: NodeJS.Timeout | undefined;
  let recorded: Promise<unknown> = Promise.resolve();
  let maxRssBytes: number | null = null;
  let told: number | null = null;
  const record = (pid: number, startTicks: number | null): void => {
    told = maxRssBytes;
    recorded = journal
      .recordProgress(run, { pid, startTicks, maxRssBytes })
      // Nobody waits for it before the script's end: unhandled until then, it would end the runner.
      .catch((error) =>
        events.emit('warning', `the process of ${run.script.name} was not recorded: ${error}`),
      );
  };
  return {
    start: (pid) => {
      // A Node that hung before its first line is started a second time.
      clearTimeout(timer);
      timer = setTimeout(() => {
        const startTicks = readStartTicks(pid);
        record(pid, startTicks);
        timer = setInterval(() => told !== maxRssBytes && record(pid, startTicks), REPEAT_MS);
      }, RECORD_AFTER_MS);
    },
    sample: (bytes) => {
      maxRssBytes = bytes;
    },
    settle: async () => {
      clearTimeout(timer);
      await recorded;
    },
  };
}
