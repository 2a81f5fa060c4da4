import { unlinkSync } from 'node:fs';
import type { JobMessage } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import { sleepUntil } from '../../system/base/sleep.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { joinWarnings } from '../result/handler-reply.ts';
import { readHead } from '../result/output.ts';
import { endNotStarted, type RunEnd, unmeasured } from '../result/result.ts';
import { ifPossible, type RunFiles, removeRunFiles, runFilesOf } from '../run-files.ts';
import { runScript } from '../script/run-script.ts';
import { type HandlerRequest, withScan } from '../start/request.ts';
import { describeEarlyEnd, describeFailedStart, describeGone, describeHungStart } from '../start/start-failure.ts';
import { type Watched, watchRun, watchShortRuns } from '../watch/watch.ts';
import type { ServedRun, WarmChild } from './child.ts';
import { describeStray, endWarmRun, type TakenChild, WarmKeeper, WarmPool } from './pool.ts';

/** Runs handlers, one at a time. */
export interface HandlerRunner {
  /** The pid of the waiting process that served last; null: none waits. */
  readonly pid: number | null;
  /** Whether a waiting child is to be replaced before its next job, once its runs are in the log. */
  readonly isWorn: boolean;
  /** Runs a job's handler to its end. It never throws, whatever the handler does. */
  run(request: HandlerRequest): Promise<RunEnd>;
  /**
   * Runs several jobs that are known to be short, one after the other. If one of them lasts, fails or prints anything,
   * the jobs that have not begun are left for another call.
   *
   * @returns the ends of the jobs that have begun, in order, and when each began
   */
  runSome(requests: ShortRuns): Promise<readonly BegunEnd[]>;
  /** Call it once the end is in the log: until then a run's files are its only record. */
  removeFiles(state: StateFolder, key: string): void;
  /** Ends the waiting processes. */
  close(): Promise<void>;
  /** Lets a child write down an end that could not be recorded, for the next runner. */
  abandon(): void;
}

export interface ShortRuns {
  readonly requests: readonly [HandlerRequest, ...HandlerRequest[]];
  /** The keys of earlier runs that may be missing in the log. */
  readonly unsettled: ReadonlySet<string>;
  /** Called when one of the runs lasts: only this many of them have begun or will begin. */
  readonly onLasting?: (begun: number) => void;
}

export interface BegunEnd {
  readonly end: RunEnd;
  /** Milliseconds from the start of the first run. */
  readonly afterMs: number;
}

export interface HandlerRunnerOptions {
  /** How many jobs a process serves before it is replaced. */
  readonly childJobs: number;
  /** A process that uses more memory than this after a job is replaced. */
  readonly childMemoryBytes: number;
  /** Whether the host has room for more children than runners. */
  readonly hasRoom: () => boolean;
  /** An older process is replaced. Default: 2 h. */
  readonly maxAgeMs?: number;
}

const MAX_AGE_MS = 2 * 60 * 60_000;

/**
 * A Node handler is called in a process that is kept for its next jobs, unless `@isolate` asks for one process per job.
 * A program is started for each job.
 *
 * @returns `count` runners that share their processes
 */
export function createHandlerRunners(count: number, options: HandlerRunnerOptions): HandlerRunner[] {
  const pool = new WarmPool({ maxAgeMs: MAX_AGE_MS, executors: count, ...options });
  return Array.from({ length: count }, () => createHandlerRunner(new WarmKeeper(pool)));
}

function createHandlerRunner(keeper: WarmKeeper): HandlerRunner {
  return {
    get pid() {
      return keeper.waiting?.pid ?? null;
    },
    get isWorn() {
      return keeper.isWorn;
    },
    run: async (request) => await runOne(keeper, request, new Set()),
    runSome: async (runs) => {
      const { requests, unsettled } = runs;
      if (requests.length > 1 && keeper.isReadyFor(requests[0])) return await runSome(keeper, runs);
      return [{ end: await runOne(keeper, requests[0], unsettled), afterMs: 0 }];
    },
    removeFiles: (state, key) => {
      const files = runFilesOf(state, key);
      // Looking for files that do not exist would take longer than the rest of this function.
      const left = keeper.forget(key);
      if (left === 'output') ifPossible(() => unlinkSync(files.output));
      if (left === undefined) removeRunFiles(files);
    },
    close: () => keeper.close(),
    abandon: () => keeper.abandon(),
  };
}

/** Whether a waiting child can serve the script. */
export function isKeptWarm({ launch, options }: Script): boolean {
  return launch.kind === 'node' && options.isolate !== true;
}

/** A run that has not begun: nothing of its handler has happened. */
interface Unbegun {
  /** One sentence that says why. */
  readonly unbegun: string;
  readonly retryAfterMs: number;
}

/** A host without room usually has some a moment later. */
const RESTART_AFTER_MS = 500;

async function runOne(keeper: WarmKeeper, request: HandlerRequest, unsettled: ShortRuns['unsettled']): Promise<RunEnd> {
  if (request.script.launch.kind === 'program') return await runScript(request);
  return await runWarm(keeper, request, unsettled);
}

/** Runs a handler in a child for many runs. A run that did not even begin is tried a second time. */
async function runWarm(keeper: WarmKeeper, asked: HandlerRequest, unsettled: ShortRuns['unsettled']): Promise<RunEnd> {
  const request = await withScan(asked);
  const startedAt = performance.now();
  const attempt = async (): Promise<RunEnd | Unbegun> => {
    const [first] = await tryWarm(keeper, { requests: [request], unsettled }, startedAt);
    return first as RunEnd | Unbegun;
  };
  const first = await attempt();
  if (!('unbegun' in first)) return first;
  await sleepUntil(request.stop, first.retryAfterMs);
  const second = request.stop.aborted ? first : await attempt();
  if ('unbegun' in second) return endNotStarted(second.unbegun, performance.now() - startedAt);
  return { ...second, warning: joinWarnings(first.unbegun, second.warning) };
}

/** If not even the first one has begun, it is run alone, with its usual second try. */
async function runSome(keeper: WarmKeeper, runs: ShortRuns): Promise<readonly BegunEnd[]> {
  const tried = await tryWarm(keeper, runs, performance.now());
  const ends: BegunEnd[] = [];
  let afterMs = 0;
  for (const end of tried) {
    if ('unbegun' in end) break;
    ends.push({ end, afterMs });
    afterMs += end.durationMs ?? 0;
  }
  if (ends.length > 0) return ends;
  const { requests, unsettled } = runs;
  return [{ end: await runWarm(keeper, requests[0], unsettled), afterMs: 0 }];
}

async function tryWarm(keeper: WarmKeeper, runs: ShortRuns, startedAt: number): Promise<readonly (RunEnd | Unbegun)[]> {
  const taken = await keeper.take(runs.requests[0]);
  if ('failure' in taken) return [endNotStarted(taken.failure, performance.now() - startedAt)];
  return await serve(keeper, taken, runs, startedAt).finally(() => keeper.giveBack(taken.kept));
}

async function serve(
  keeper: WarmKeeper,
  { kept, note }: TakenChild,
  { requests, unsettled, onLasting }: ShortRuns,
  startedAt: number,
): Promise<readonly (RunEnd | Unbegun)[]> {
  const { child } = kept;
  // A child that has just been started may need long for its first job.
  const together = child.isReady ? keeper.choose(kept, requests) : ([requests[0]] as const);
  const files = together.map(({ state, key }) => runFilesOf(state, key));
  const stopWatching = watch(child, together, files, onLasting);
  const serving = {
    jobs: together.map((each, index) => messageOf(each, files[index] as RunFiles)),
    unsettled,
    onUpdate: (index: number, data: string) => together[index]?.onUpdate(data),
  };
  const served = await keeper.serve(kept, serving).catch((error) => {
    stopWatching();
    throw error;
  });
  const watched = stopWatching();
  const elapsedMs = performance.now() - startedAt;
  const ends: (RunEnd | Unbegun)[] = [];
  for (const [index, each] of served.entries()) {
    const asked = together[index] as HandlerRequest;
    const isLast = index === served.length - 1;
    const isTimed = together.length > 1 && 'message' in each;
    const observed = {
      ...(isLast ? watched : unwatched(watched)),
      ...{ served: each, files: files[index] as RunFiles, note, isLast },
      durationMs: isTimed ? each.message.durationMs : elapsedMs,
    };
    const unbegun = findUnbegun(asked, child, observed);
    ends.push(unbegun ?? (await endWarmRun(asked, child, observed)));
    keeper.note(kept, asked.key, observed);
  }
  const unserved = files.slice(served.length);
  if (unserved.some((each) => child.files.isNamedFor(each))) child.files.unname();
  return ends;
}

/** In a series of runs, only the last one can have been ended, or have lasted long enough to be sampled. */
function unwatched({ termination }: Watched): Watched {
  const settled = { ...termination, cause: null, killed: false };
  return { termination: settled, sampled: unmeasured, memory: null, droppedBytes: 0 };
}

/** A child that has just been started may hang before it reaches the job. */
function watch(
  child: WarmChild,
  requests: readonly [HandlerRequest, ...HandlerRequest[]],
  files: readonly RunFiles[],
  onLasting: ShortRuns['onLasting'],
): () => Watched {
  const { fd } = child.files;
  const [request] = requests;
  const [first] = files as [RunFiles];
  if (requests.length === 1) request.onStarted?.(child.pid);
  if (!child.isReady) {
    child.files.nameFor(first);
    return watchRun(child.pid, request, fd);
  }
  return watchShortRuns(child.pid, requests, fd, () => {
    // A single run counts as begun, however late it begins.
    const begun = requests.length === 1 ? 1 : child.revoke();
    // If they cannot be revoked, all of them count as begun for everybody else.
    const index = Math.min(Math.max(begun ?? child.ended + 1, 1), requests.length) - 1;
    const lasting = requests[index] ?? request;
    child.files.nameFor(files[index] as RunFiles);
    if (requests.length > 1) lasting.onStarted?.(child.pid);
    if (begun !== null) onLasting?.(index + 1);
    return lasting;
  });
}

function messageOf({ job, key, script }: HandlerRequest, files: RunFiles): JobMessage {
  const { result: resultPath, output: outputPath } = files;
  return { job, key, script: script.name, path: script.path, resultPath, outputPath };
}

function findUnbegun(
  request: HandlerRequest,
  child: WarmChild,
  { served, termination: { cause } }: Watched & { readonly served: ServedRun },
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
      ? describeHungStart(request.hangAfterMs)
      : (describeFailedStart(output) ?? describeEarlyEnd(exit.code ?? exit.signal, output));
  return { unbegun, retryAfterMs: RESTART_AFTER_MS };
}
