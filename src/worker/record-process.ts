import { readStartTicks } from '../process/process-identity.ts';
import { type ClaimedJob, recordRunProcess } from '../queue/claim-job.ts';
import type { Pass } from './pass.ts';

export interface ProcessRecorder {
  start(pid: number): void;
  /** To be awaited once the run has ended. */
  settle(): Promise<void>;
}

/** Most scripts are over before anybody could ask who they are; a write right after a fork is dear. */
const RECORD_AFTER_MS = 100;

/** Writes down which process a run is, for the report and for whoever finds it without its runner. */
export function createProcessRecorder({ store, events }: Pass, job: ClaimedJob): ProcessRecorder {
  let timer: NodeJS.Timeout | undefined;
  let recorded: Promise<unknown> = Promise.resolve();
  const record = (pid: number): Promise<unknown> =>
    store
      .withoutSync((db) =>
        recordRunProcess(db, job.runId, { pid, startTicks: readStartTicks(pid) }),
      )
      // Nobody waits for it before the script's end: unhandled until then, it would end the runner.
      .catch((error) =>
        events.emit('warning', `the process of ${job.script.name} was not recorded: ${error}`),
      );
  return {
    start: (pid) => {
      timer = setTimeout(() => {
        recorded = record(pid);
      }, RECORD_AFTER_MS);
    },
    settle: async () => {
      clearTimeout(timer);
      await recorded;
    },
  };
}
