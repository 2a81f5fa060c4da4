import { unlinkSync } from 'node:fs';
import type { StateFolder } from '../config/state-folder.ts';
import type { Script } from '../discovery/script.ts';
import { type HandlerRequest, toRunRequest } from './handler-request.ts';
import type { RunEnd } from './run-end.ts';
import { ifPossible, removeRunFiles, runFilesOf } from './run-files.ts';
import { runScript } from './run-script.ts';
import { runWarm } from './run-warm.ts';
import { WarmKeeper } from './warm-keeper.ts';

/** Runs handlers, one at a time. */
export interface HandlerRunner {
  /** Of the process that waits for the next job; null: none does. */
  readonly pid: number | null;
  /** When that started, as `/proc` has it. */
  readonly startTicks: number | null;
  /** Runs a job's handler to its end, whatever that is: nothing that it does makes this throw. */
  run(request: HandlerRequest): Promise<RunEnd>;
  /** To be called once the end is in the log: until then a run's files are all there is of it. */
  removeFiles(state: StateFolder, runId: number | string): void;
  /** Ends the process that waits. */
  close(): Promise<void>;
  /** Lets it write down an end that could not be recorded, for whoever comes next. */
  abandon(): void;
}

export interface HandlerRunnerOptions {
  /** How many jobs a process serves before it is replaced. */
  readonly childJobs: number;
  /** One that holds more after a job is replaced. */
  readonly childMemoryBytes: number;
  /** One that is older is replaced. Default: 2 h. */
  readonly maxAgeMs?: number;
}

const MAX_AGE_MS = 2 * 60 * 60_000;

/**
 * A Node handler is called in a process that is kept for the next ones, unless it asks by `@isolate`
 * for one of its own; a program is started for each job.
 */
export function createHandlerRunner(options: HandlerRunnerOptions): HandlerRunner {
  const keeper = new WarmKeeper({ maxAgeMs: MAX_AGE_MS, ...options });
  return {
    get pid() {
      return keeper.waiting?.pid ?? null;
    },
    get startTicks() {
      return keeper.waiting?.startTicks ?? null;
    },
    run: async (request) =>
      isKeptWarm(request.script)
        ? await runWarm(keeper, request)
        : await runScript(toRunRequest(request)),
    removeFiles: (state, runId) => {
      const files = runFilesOf(state, runId);
      // Looking for files that are not there takes longer than all else here.
      const left = keeper.forget(runId);
      if (left === 'output') ifPossible(() => unlinkSync(files.output));
      if (left === undefined) removeRunFiles(files);
    },
    close: () => keeper.close(),
    abandon: () => keeper.abandon(),
  };
}

/** Whether a child that waits serves it. */
export function isKeptWarm({ launch, options }: Script): boolean {
  return launch.kind === 'node' && options.isolate !== true;
}
