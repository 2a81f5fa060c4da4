import { unlinkSync } from 'node:fs';
import type { EndMessage } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import { sleepUntil } from '../../system/base/clock.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { joinWarnings } from '../result/handler-reply.ts';
import { endNotStarted, type RunEnd, unmeasured } from '../result/result.ts';
import { ifPossible, type RunFiles, removeRunFiles, runFilesOf } from '../run-files.ts';
import { runScript } from '../script/run-script.ts';
import { type HandlerRequest, withScan } from '../start/process.ts';
import type { StartFailure } from '../start/start-failure.ts';
import { type Watched, watchRun, watchShortRuns } from '../watch/watch.ts';
import { isIsolated, WarmChild } from './child.ts';
import { describeStray, endWarmRun, findUnbegun, type Unbegun, type WarmObservation } from './end.ts';

type Requests = readonly [HandlerRequest, ...HandlerRequest[]];

export interface ShortRuns {
  readonly requests: Requests;
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

/** Each child takes 10 MB plus its handler's modules, and 7 threads, which hosts count. */
const MOST_SPARE = 9;

/** The children that all runners of a worker share. */
interface Pool extends Required<HandlerRunnerOptions> {
  /** How many runners share it. */
  readonly runners: number;
  /** The children that have idled longest come first. */
  readonly children: Set<WarmChild>;
  starting: number;
}

/**
 * A Node handler is called in a process that is kept for its next jobs, unless `@isolate` asks for one process per job.
 * A program is started for each job.
 *
 * @returns `count` runners that share their processes
 */
export function createHandlerRunners(count: number, options: HandlerRunnerOptions): HandlerRunner[] {
  const pool = { maxAgeMs: MAX_AGE_MS, ...options, runners: count, children: new Set<WarmChild>(), starting: 0 };
  return Array.from({ length: count }, () => new WarmRunner(pool));
}

/** Whether a waiting child can serve the script. */
export function isKeptWarm({ launch, options }: Script): boolean {
  return launch.kind === 'node' && options.isolate !== true;
}

/** The methods of {@link WarmRunner}. */
export type HandlerRunner = Pick<WarmRunner, keyof WarmRunner>;

/**
 * Runs handlers, one at a time. It keeps a child for each of the handlers called last: a handler must not notice how
 * others have changed built-in objects or shared modules. It replaces a child whose next job could notice leftovers of
 * earlier ones.
 */
class WarmRunner {
  readonly #pool: Pool;
  readonly #leaving = new Set<Promise<unknown>>();

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** The pid of the waiting process that served last; null: none waits. */
  get pid(): number | null {
    return this.#own().findLast(({ isWorn, hasEnded }) => !isWorn && !hasEnded)?.pid ?? null;
  }

  /** Whether a waiting child is to be replaced before its next job, once its runs are in the log. */
  get isWorn(): boolean {
    return this.#own().some((each) => each.isWorn);
  }

  /**
   * Runs a job's handler to its end, or several jobs that are known to be short, one after the other. If one of them
   * lasts, fails or prints anything, the jobs that have not begun are left for another call. It never throws, whatever
   * the handlers do.
   *
   * @returns the ends of the jobs that have begun, in order, and when each began
   */
  async run(runs: ShortRuns): Promise<readonly BegunEnd[]> {
    const { requests, unsettled } = runs;
    const [first] = requests;
    if (first.script.launch.kind === 'program') return [{ end: await runScript(first), afterMs: 0 }];
    if (requests.length > 1 && this.#findFree(first.script.path)[0]?.isReady === true) {
      const ends = await this.#serve(runs, performance.now());
      // If not even the first one has begun, it is run alone, with its usual second try.
      if (!('unbegun' in ends) && ends.length > 0) return ends;
    }
    return [{ end: await this.#runAlone(first, unsettled), afterMs: 0 }];
  }

  /** Removes a run's files. Call it once the end is in the log: until then they are its only record. */
  removeFiles(state: StateFolder, key: string): void {
    const files = runFilesOf(state, key);
    const child = this.#own().find(({ runs }) => runs.has(key));
    // Looking for files that do not exist would take longer than the rest of this function.
    if (child === undefined) removeRunFiles(files);
    else if (child.runs.get(key)) ifPossible(() => unlinkSync(files.output));
    child?.runs.delete(key);
    if (child?.isWorn) this.#wear(child);
  }

  /** Ends the waiting processes. */
  async close(): Promise<void> {
    for (const child of this.#own()) this.#retire(child);
    await Promise.all(this.#leaving);
  }

  /** Lets the children write down ends that could not be recorded, for the next runner. */
  abandon(): void {
    for (const child of this.#own()) {
      child.abandon();
      this.#pool.children.delete(child);
    }
  }

  /** A run that did not even begin is tried a second time. */
  async #runAlone(asked: HandlerRequest, unsettled: ShortRuns['unsettled']): Promise<RunEnd> {
    const request = await withScan(asked);
    const startedAt = performance.now();
    const attempt = async (): Promise<RunEnd | Unbegun> => {
      const ends = await this.#serve({ requests: [request], unsettled }, startedAt);
      return 'unbegun' in ends ? ends : (ends[0] as BegunEnd).end;
    };
    const first = await attempt();
    if (!('unbegun' in first)) return first;
    await sleepUntil(request.stop, first.retryAfterMs);
    const second = request.stop.aborted ? first : await attempt();
    if ('unbegun' in second) return endNotStarted(second.unbegun, performance.now() - startedAt);
    return { ...second, warning: joinWarnings(first.unbegun.failure, second.warning) };
  }

  /** Serves the requests in a child; the answer says why if not even the first one has begun. */
  async #serve(runs: ShortRuns, startedAt: number): Promise<readonly BegunEnd[] | Unbegun> {
    const taken = await this.#take(runs.requests[0]);
    if ('failure' in taken) {
      return [{ end: endNotStarted(taken, performance.now() - startedAt), afterMs: 0 }];
    }
    const { child, note } = taken;
    try {
      return await this.#serveBy(child, note, runs, startedAt);
    } finally {
      child.isBusy = false;
      if (child.isAlone) this.#retire(child);
    }
  }

  async #serveBy(
    child: WarmChild,
    note: string | null,
    { requests, unsettled, onLasting }: ShortRuns,
    startedAt: number,
  ): Promise<readonly BegunEnd[] | Unbegun> {
    // A child that has just been started may need long for its first job.
    const together = child.isReady ? this.#choose(child, requests) : ([requests[0]] as const);
    const files = together.map(({ state, key }) => runFilesOf(state, key));
    const stopWatching = watchServing(child, together, files, onLasting);
    const serving = child.serve(together, unsettled, this.#pool.childMemoryBytes);
    const served = await serving.catch((error) => {
      stopWatching();
      throw error;
    });
    const watched = stopWatching();
    const elapsedMs = performance.now() - startedAt;
    const ends: BegunEnd[] = [];
    let afterMs = 0;
    let unbegun: Unbegun | null = null;
    for (const [index, each] of served.entries()) {
      const request = together[index] as HandlerRequest;
      const isLast = index === served.length - 1;
      const observed = {
        ...(isLast ? watched : unwatched(watched)),
        ...{ served: each, files: files[index] as RunFiles, note, isLast },
        durationMs: together.length > 1 ? (each.message?.durationMs ?? elapsedMs) : elapsedMs,
      };
      unbegun = findUnbegun(request, child, observed);
      if (unbegun === null) {
        const end = await endWarmRun(request, child, observed);
        ends.push({ end, afterMs });
        afterMs += end.durationMs ?? 0;
      }
      this.#note(child, request.key, observed);
      if (unbegun !== null) break;
    }
    const unserved = files.slice(served.length);
    if (unserved.some((each) => child.files.isNamedFor(each))) child.files.unname();
    return ends.length === 0 && unbegun !== null ? unbegun : ends;
  }

  /** The requests from the start of the list that the child can serve in a row before it is to be replaced. */
  #choose(child: WarmChild, [first, ...others]: Requests): Requests {
    const alike = others.findIndex((each) => !child.isFor(each));
    const most = Math.max(0, this.#pool.childJobs - child.jobs - 1);
    return [first, ...others.slice(0, Math.min(most, alike === -1 ? others.length : alike))];
  }

  /** Notes a run of the child, once its output is read. */
  #note(child: WarmChild, key: string, { served: { message }, termination, files }: WarmObservation): void {
    if (child.isAlone) return;
    if (message !== undefined && termination.cause === null) {
      child.runs.set(key, child.files.isNamedFor(files));
      child.isWorn ||= this.#isSpent(child, message);
    } else {
      // At its end the child has written down all ends that may be missing in the log.
      child.runs.clear();
      this.#retire(child);
    }
  }

  #own(): WarmChild[] {
    return [...this.#pool.children].filter(({ owner }) => owner === this);
  }

  /** A child of another runner is free, too, once all its runs are in the log. */
  #isFree({ owner, isBusy, isWorn, runs }: WarmChild): boolean {
    return !isBusy && !isWorn && (owner === this || runs.size === 0);
  }

  /** The waiting children of a handler, the most recent first. */
  #findFree(path: string): WarmChild[] {
    return [...this.#pool.children].filter((each) => each.path === path && this.#isFree(each)).toReversed();
  }

  /**
   * Takes a waiting child of the handler if it fits, otherwise a new one. An isolated job always gets a new one.
   *
   * @returns the child, and a remark about the child before it; null: none
   */
  async #take(request: HandlerRequest): Promise<{ child: WarmChild; note: string | null } | StartFailure> {
    let note: string | null = null;
    if (!isIsolated(request)) {
      for (const child of this.#findFree(request.script.path)) {
        if (child.isUsable(request) && !this.#isOld(child)) return { child: this.#begin(child), note: null };
        note ??= child.stray && describeStray(child.stray);
        this.#wear(child);
      }
      this.#makeRoom();
    }
    const pool = this.#pool;
    pool.starting += 1;
    const child = await WarmChild.start(request, this).finally(() => {
      pool.starting -= 1;
    });
    if ('failure' in child) return child;
    if (!child.isAlone) pool.children.add(child);
    return { child, note };
  }

  #begin(child: WarmChild): WarmChild {
    child.files.begin();
    child.owner = this;
    child.isBusy = true;
    // Moves the child to the end.
    this.#pool.children.delete(child);
    this.#pool.children.add(child);
    return child;
  }

  /** Replaces the children that have idled longest. */
  #makeRoom(): void {
    for (const child of this.#pool.children) {
      if (!this.#isFull()) return;
      if (this.#isFree(child)) this.#wear(child);
    }
  }

  /** A child for each runner is always allowed; more only if the host has room. */
  #isFull(): boolean {
    const { runners, hasRoom, children, starting } = this.#pool;
    const count = [...children].filter(({ isWorn }) => !isWorn).length + starting;
    return count >= runners && (count >= runners + MOST_SPARE || !hasRoom());
  }

  #isSpent(child: WarmChild, { rssBytes, isSpoilt, stray, trace }: EndMessage): boolean {
    const { childJobs, childMemoryBytes } = this.#pool;
    const isFull = child.jobs >= childJobs || (rssBytes ?? 0) > childMemoryBytes;
    return isFull || this.#isOld(child) || isSpoilt === true || stray !== undefined || trace !== undefined;
  }

  #isOld({ startedAt }: WarmChild): boolean {
    return performance.now() - startedAt > this.#pool.maxAgeMs;
  }

  #wear(child: WarmChild): void {
    child.isWorn = true;
    if (child.runs.size === 0) this.#retire(child);
  }

  /** Does not wait: the next child can start meanwhile. */
  #retire(child: WarmChild): void {
    this.#pool.children.delete(child);
    const leaving = child.close().then(() => child.files.remove());
    this.#leaving.add(leaving);
    void leaving.finally(() => this.#leaving.delete(leaving));
  }
}

/** In a series of runs, only the last one can have been ended, or have lasted long enough to be sampled. */
function unwatched({ termination }: Watched): Watched {
  const settled = { ...termination, cause: null, stoppedBy: null, killed: false };
  return { termination: settled, sampled: unmeasured, memory: null, droppedBytes: 0 };
}

/** A child that has just been started may hang before it reaches the job. */
function watchServing(
  child: WarmChild,
  requests: Requests,
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
