import { unlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import prettyMilliseconds from 'pretty-ms';
import type { JobMessage } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { joinWarnings } from '../result/handler-reply.ts';
import { readHead } from '../result/output.ts';
import { endNotStarted, type RunEnd, unmeasured } from '../result/result.ts';
import { ifPossible, type RunFiles, removeRunFiles, runFilesOf } from '../run-files.ts';
import { runScript } from '../script/run-script.ts';
import { type HandlerRequest, toRunRequest, withScan } from '../start/request.ts';
import { describeEarlyEnd, describeFailedStart, describeGone, describeHungStart } from '../start/start-failure.ts';
import { HANG_AFTER_MS, type Watched, watchRun, watchShortRuns } from '../watch/watch.ts';
import type { ServedRun, WarmChild } from './child.ts';
import { describeStray, endWarmRun, type TakenChild, WarmKeeper, WarmPool } from './pool.ts';

/** Runs handlers, one at a time. */
export interface HandlerRunner {
  /** Of the process that has served last, and waits for the next job; null: none does. */
  readonly pid: number | null;
  /** Whether a child that waits is to be replaced before its next job, once its runs are in the log. */
  readonly isWorn: boolean;
  /** Runs a job's handler to its end, whatever that is: nothing that it does makes this throw. */
  run(request: HandlerRequest): Promise<RunEnd>;
  /**
   * The same for several that are known to be short, one after the other. What has not begun when one of them
   * lasts, has failed or has printed anything is left to be run anew.
   *
   * @returns the ends of those that have begun, in their order, and when they began
   */
  runSome(requests: ShortRuns): Promise<readonly BegunEnd[]>;
  /** To be called once the end is in the log: until then a run's files are all there is of it. */
  removeFiles(state: StateFolder, key: string): void;
  /** Ends the processes that wait. */
  close(): Promise<void>;
  /** Lets it write down an end that could not be recorded, for whoever comes next. */
  abandon(): void;
}

export interface ShortRuns {
  readonly requests: readonly [HandlerRequest, ...HandlerRequest[]];
  /** The runs before these that may not be in the log. */
  readonly unsettled: ReadonlySet<string>;
  /** Told that none but so many of these have begun, or will: one of them lasts. */
  readonly onLasting?: (begun: number) => void;
}

export interface BegunEnd {
  readonly end: RunEnd;
  /** How long after the first one. */
  readonly afterMs: number;
}

export interface HandlerRunnerOptions {
  /** How many jobs a process serves before it is replaced. */
  readonly childJobs: number;
  /** One that holds more after a job is replaced. */
  readonly childMemoryBytes: number;
  /** Whether the host has room for more children than runners. */
  readonly hasRoom: () => boolean;
  /** One that is older is replaced. Default: 2 h. */
  readonly maxAgeMs?: number;
}

const MAX_AGE_MS = 2 * 60 * 60_000;

/**
 * A Node handler is called in a process that is kept for its next jobs, unless it asks by `@isolate` for one for each
 * job; a program is started for each job.
 *
 * @returns so many, which share what they keep
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

async function runOne(keeper: WarmKeeper, request: HandlerRequest, unsettled: ShortRuns['unsettled']): Promise<RunEnd> {
  if (request.script.launch.kind === 'program') return await runScript(toRunRequest(request));
  return await runWarm(keeper, request, unsettled);
}

/** Runs a handler in a child that serves many. What did not even begin is tried a second time. */
async function runWarm(keeper: WarmKeeper, asked: HandlerRequest, unsettled: ShortRuns['unsettled']): Promise<RunEnd> {
  const request = await withScan(asked);
  const startedAt = performance.now();
  const attempt = async (): Promise<RunEnd | Unbegun> => {
    const [first] = await tryWarm(keeper, { requests: [request], unsettled }, startedAt);
    return first as RunEnd | Unbegun;
  };
  const first = await attempt();
  if (!('unbegun' in first)) return first;
  await sleep(first.retryAfterMs, undefined, { signal: request.stop }).catch(() => {});
  const second = request.stop.aborted ? first : await attempt();
  if ('unbegun' in second) return endNotStarted(second.unbegun, performance.now() - startedAt);
  return { ...second, warning: joinWarnings(first.unbegun, second.warning) };
}

/** Where not even the first one has begun, that is run alone, as often as is due to it. */
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
  // One that has just been started may take long to come to its first job.
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

/** Of several runs, only the last can have been ended, or have lasted long enough to be looked at. */
function unwatched({ termination }: Watched): Watched {
  const settled = { ...termination, cause: null, killed: false };
  return { termination: settled, sampled: unmeasured, memory: null, droppedBytes: 0 };
}

/** One that has just been started may hang before it comes to the job. */
function watch(
  child: WarmChild,
  requests: readonly [HandlerRequest, ...HandlerRequest[]],
  files: readonly RunFiles[],
  onLasting: ShortRuns['onLasting'],
): () => Watched {
  const { fd } = child.files;
  const [request] = requests;
  const [first] = files as [RunFiles];
  if (requests.length === 1) request.onStarted(child.pid);
  if (!child.isReady) {
    child.files.nameFor(first);
    return watchRun(child.pid, request, fd);
  }
  return watchShortRuns(child.pid, requests, fd, () => {
    // What runs alone begins, however late.
    const begun = requests.length === 1 ? 1 : child.revoke();
    // If it cannot be revoked, all of them have begun as far as anybody else is concerned.
    const index = Math.min(Math.max(begun ?? child.ended + 1, 1), requests.length) - 1;
    const lasting = requests[index] ?? request;
    child.files.nameFor(files[index] as RunFiles);
    if (requests.length > 1) lasting.onStarted(child.pid);
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
      ? describeHungStart(prettyMilliseconds(request.hangAfterMs ?? HANG_AFTER_MS))
      : (describeFailedStart(output) ?? describeEarlyEnd(exit.code ?? exit.signal, output));
  return { unbegun, retryAfterMs: RESTART_AFTER_MS };
}
