import { unlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import prettyMilliseconds from 'pretty-ms';
import type { JobMessage } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import { runScript } from '../isolated/run-script.ts';
import { joinWarnings } from '../result/handler-reply.ts';
import { readHead } from '../result/output.ts';
import { endNotStarted, type RunEnd } from '../result/result.ts';
import { ifPossible, type RunFiles, removeRunFiles, runFilesOf } from '../run-files.ts';
import { type HandlerRequest, toRunRequest } from '../start/request.ts';
import {
  describeEarlyEnd,
  describeFailedStart,
  describeGone,
  describeHungStart,
} from '../start/start-failure.ts';
import { HANG_AFTER_MS, type Watched, watchRun, watchShortRun } from '../watch/watch.ts';
import type { ServedRun, WarmChild } from './child.ts';
import { describeStray, endWarmRun, WarmKeeper } from './pool.ts';

/** Runs handlers, one at a time. */
export interface HandlerRunner {
  /** Of the process that waits for the next job; null: none does. */
  readonly pid: number | null;
  /** When that started, as `/proc` has it. */
  readonly startTicks: number | null;
  /** Runs a job's handler to its end, whatever that is: nothing that it does makes this throw. */
  run(request: HandlerRequest): Promise<RunEnd>;
  /** To be called once the end is in the log: until then a run's files are all there is of it. */
  removeFiles(state: StateFolder, key: string): void;
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
    removeFiles: (state, key) => {
      const files = runFilesOf(state, key);
      // Looking for files that are not there takes longer than all else here.
      const left = keeper.forget(key);
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

/** A run that has not begun: nothing of its handler has happened. */
interface Unbegun {
  /** Why, in one sentence. */
  readonly unbegun: string;
  readonly retryAfterMs: number;
}

/** A host that has no room has some a moment later, as a rule. */
const RESTART_AFTER_MS = 500;

/** Runs a handler in a child that serves many. What did not even begin is tried a second time. */
async function runWarm(keeper: WarmKeeper, request: HandlerRequest): Promise<RunEnd> {
  const startedAt = performance.now();
  const first = await tryWarm(keeper, request, startedAt);
  if (!('unbegun' in first)) return first;
  await sleep(first.retryAfterMs, undefined, { signal: request.stop }).catch(() => {});
  const second = request.stop.aborted ? first : await tryWarm(keeper, request, startedAt);
  if ('unbegun' in second) return endNotStarted(second.unbegun, performance.now() - startedAt);
  return { ...second, warning: joinWarnings(first.unbegun, second.warning) };
}

async function tryWarm(
  keeper: WarmKeeper,
  request: HandlerRequest,
  startedAt: number,
): Promise<RunEnd | Unbegun> {
  const files = runFilesOf(request.state, request.key);
  const taken = await keeper.take(request);
  if ('failure' in taken) return endNotStarted(taken.failure, performance.now() - startedAt);
  const { child, note } = taken;
  request.onStarted(child.pid);
  const stopWatching = watch(child, request, files);
  const served = await child.serve(messageOf(request, files), request.onUpdate).catch((error) => {
    stopWatching();
    throw error;
  });
  const watched = stopWatching();
  const durationMs = performance.now() - startedAt;
  const unbegun = findUnbegun(request, child, served, watched);
  const end =
    unbegun ?? (await endWarmRun(request, child, { ...watched, served, files, durationMs, note }));
  keeper.giveBack(child, request.key, served, watched);
  return end;
}

/** One that has just been started may hang before it comes to the job. */
function watch(child: WarmChild, request: HandlerRequest, files: RunFiles): () => Watched {
  const { fd } = child.files;
  if (child.isReady) {
    return watchShortRun(child.pid, request, fd, () => child.files.nameFor(files));
  }
  child.files.nameFor(files);
  return watchRun(child.pid, request, fd);
}

function messageOf(request: HandlerRequest, files: RunFiles): JobMessage {
  const { job, key, script, isSettled = true } = request;
  const { result: resultPath, output: outputPath } = files;
  return { job, key, script: script.name, path: script.path, resultPath, outputPath, isSettled };
}

function findUnbegun(
  request: HandlerRequest,
  child: WarmChild,
  served: ServedRun,
  { termination: { cause } }: Watched,
): Unbegun | null {
  if ('message' in served) return null;
  const { exit, stray, isUnread } = served;
  if (stray !== null && stray.lastKey !== request.key) {
    return { unbegun: describeStray(stray.jobId, stray.sentence), retryAfterMs: 0 };
  }
  if (child.isReady && isUnread && cause === null) {
    return { unbegun: describeGone(exit.code ?? exit.signal), retryAfterMs: 0 };
  }
  if (child.isReady || (cause !== null && cause !== 'hung')) return null;
  const output = readHead(child.files.fd);
  const unbegun =
    cause === 'hung'
      ? describeHungStart(prettyMilliseconds(request.hangAfterMs ?? HANG_AFTER_MS))
      : (describeFailedStart(output) ?? describeEarlyEnd(exit.code ?? exit.signal, output));
  return { unbegun, retryAfterMs: RESTART_AFTER_MS };
}
