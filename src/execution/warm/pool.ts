import type { EndMessage, ProbeResult, Stray, Trace } from '../../child/contract.ts';
import { judgeEnd } from '../result/end.ts';
import { noWords, readNodeWords } from '../result/handler-reply.ts';
import { keepOutput } from '../result/output.ts';
import { maskResult, readProbeResult } from '../result/report.ts';
import { addCpu, type KeptOutput, type Measurement, measureBySelf, noOutput, type RunEnd } from '../result/result.ts';
import { isDiskFull } from '../result/wording.ts';
import type { RunFiles } from '../run-files.ts';
import type { Exit, StartFailure } from '../start/process.ts';
import type { HandlerRequest } from '../start/request.ts';
import { findLeft } from '../watch/terminate.ts';
import type { Watched } from '../watch/watch.ts';
import { isIsolated, type ServedRun, type Serving, WarmChild } from './child.ts';

/** A run in a child, as seen from the runner. */
interface WarmObservation extends Watched {
  readonly served: ServedRun;
  readonly files: RunFiles;
  readonly durationMs: number;
  /** In a series of runs, only the last one can have printed anything. */
  readonly isLast: boolean;
  /** A further remark about the child; null: none. */
  readonly note: string | null;
}

/** Determines how a run in a warm child ended: only the handler, or the process with it. */
export async function endWarmRun(
  request: HandlerRequest,
  child: WarmChild,
  observed: WarmObservation,
): Promise<RunEnd> {
  const exit = 'exit' in observed.served ? observed.served.exit : null;
  const result = readResult(request, observed);
  const output = await keepWarmOutput(request, child, observed);
  const { stray, trace } = 'message' in observed.served ? observed.served.message : {};
  return await judgeEnd({
    ...{ ...observed, request, exit, result, output, pid: child.pid },
    measured: result === null ? measureFromOutside(child, observed, exit) : measureBySelf(result),
    words: result === null ? noWords : readNodeWords(result, request.masker),
    left: exit === null ? [] : await findLeft(child.pid, []),
    isDiskFull: output !== noOutput && isDiskFull(request.state.output),
    startFailure: null,
    firstFailure: null,
    findRefutation: async () => (await request.scan?.finish(child.files.fd, request.masker, child.files.end())) ?? null,
    counts: result?.counts,
    isGarbled: 'exit' in observed.served && observed.served.isGarbled,
    notes: [
      observed.note,
      stray ? describeStray(stray.jobId, stray.sentence) : null,
      trace ? request.masker.text(describeTrace(trace)) : null,
    ],
  });
}

/** Takes the child's report; if its process ended with the run, the file that the process left. */
function readResult({ masker }: HandlerRequest, { served, files }: WarmObservation): ProbeResult | null {
  if ('message' in served) return maskResult(served.message.end, masker);
  // A killed process writes nothing, so a file would be older than this run.
  return served.exit.signal === null ? readProbeResult(files.result, masker) : null;
}

async function keepWarmOutput(
  { maxOutputBytes: maxBytes, masker }: HandlerRequest,
  child: WarmChild,
  { files: { output: path }, droppedBytes, isLast }: WarmObservation,
): Promise<KeptOutput> {
  if (!isLast || child.files.end() === 0) return noOutput;
  return await keepOutput({ path, fd: child.files.fd, droppedBytes, maxBytes, masker });
}

/** Words for a leftover of an earlier run that failed after the run's end. */
export function describeStray(jobId: number | null, sentence: string): string {
  const what = jobId === null ? 'an error of an earlier run' : `something of an earlier run of job ${jobId}`;
  return `${what} failed after that run had ended (${sentence}), so its process was replaced`;
}

function describeTrace({ kind, what }: Trace): string {
  const left = kind === 'changed' ? `changed ${what}, which later jobs` : `left a ${what}() running, which later jobs`;
  return `it ${left} of its process would have met, so its process was replaced`;
}

/** The kernel's count for the whole life of the process, minus its earlier jobs. */
function measureFromOutside(
  { usedCpu, isAlone }: WarmChild,
  { sampled }: WarmObservation,
  exit: Exit | null,
): Measurement {
  const cpu = exit?.cpu ?? null;
  if (isAlone) return addCpu(sampled, cpu);
  const { maxRssBytes } = sampled;
  if (cpu === null) {
    const measuredBy = maxRssBytes === null ? null : 'sampled';
    return { userCpuMs: null, systemCpuMs: null, maxRssBytes, measuredBy };
  }
  return {
    userCpuMs: Math.max(0, cpu.userCpuMs - usedCpu.userCpuMs),
    systemCpuMs: Math.max(0, cpu.systemCpuMs - usedCpu.systemCpuMs),
    maxRssBytes,
    measuredBy: 'sampled',
  };
}

/** How many children are kept, and when a child has served enough. */
interface KeepingRules {
  readonly executors: number;
  /** Whether the host has room for more children than executors. */
  readonly hasRoom: () => boolean;
  readonly childJobs: number;
  readonly childMemoryBytes: number;
  readonly maxAgeMs: number;
}

/** Each child takes 10 MB plus its handler's modules, and 7 threads, which hosts count. */
const MOST_SPARE = 9;

/** A child and its keeper's notes about it. */
interface Kept {
  readonly child: WarmChild;
  /** The keeper whose runs it served last. */
  keeper: WarmKeeper;
  isBusy: boolean;
  /**
   * Whether it is to be replaced once the ends of its runs are in the log. Until then it may be the only one that knows
   * them.
   */
  isWorn: boolean;
  /** Its runs that may be missing in the log. The value says whether the run has left an output file. */
  readonly runs: Map<string, boolean>;
}

/** A child that is ready for a run. */
export interface TakenChild {
  readonly kept: Kept;
  /** A remark about the child before it; null: none. */
  readonly note: string | null;
}

/** The children that all executors of a worker share. */
export class WarmPool {
  readonly rules: KeepingRules;
  /** The children that have idled longest come first. */
  readonly kept = new Set<Kept>();
  #starting = 0;

  constructor(rules: KeepingRules) {
    this.rules = rules;
  }

  /** A child for each executor is always allowed; more only if the host has room. */
  isFull(): boolean {
    const { executors, hasRoom } = this.rules;
    const count = [...this.kept].filter(({ isWorn }) => !isWorn).length + this.#starting;
    return count >= executors && (count >= executors + MOST_SPARE || !hasRoom());
  }

  async start(request: HandlerRequest): Promise<WarmChild | StartFailure> {
    this.#starting += 1;
    return await WarmChild.start(request).finally(() => {
      this.#starting -= 1;
    });
  }
}

/**
 * Keeps a child for each of the handlers called last: a handler must not notice how others have changed built-in
 * objects or shared modules. It replaces a child whose next job could notice leftovers of earlier ones.
 */
export class WarmKeeper {
  readonly #pool: WarmPool;
  readonly #leaving = new Set<Promise<unknown>>();

  constructor(pool: WarmPool) {
    this.#pool = pool;
  }

  /** Whether a child is to be replaced as soon as its runs are in the log. */
  get isWorn(): boolean {
    return this.#own().some((each) => each.isWorn);
  }

  /** The waiting child that served last. */
  get waiting(): WarmChild | null {
    const waiting = this.#own().filter(({ child, isWorn }) => !isWorn && !child.hasEnded);
    return waiting.at(-1)?.child ?? null;
  }

  isReadyFor({ script }: HandlerRequest): boolean {
    return this.#findFree(script.path)[0]?.child.isReady === true;
  }

  /** Takes a waiting child of the handler if it fits, otherwise a new one. An isolated job always gets a new one. */
  async take(request: HandlerRequest): Promise<TakenChild | StartFailure> {
    if (isIsolated(request)) return await this.#takeNew(request, null);
    let stray: Stray | null = null;
    for (const kept of this.#findFree(request.script.path)) {
      if (kept.child.isUsable(request) && !this.#isOld(kept.child)) return { kept: this.#begin(kept), note: null };
      stray ??= kept.child.stray;
      this.#wear(kept);
    }
    this.#makeRoom();
    return await this.#takeNew(request, stray && describeStray(stray.jobId, stray.sentence));
  }

  /** The requests from the start of the list that the child can serve in a row before it is to be replaced. */
  choose(
    { child }: Kept,
    [first, ...others]: readonly [HandlerRequest, ...HandlerRequest[]],
  ): readonly [HandlerRequest, ...HandlerRequest[]] {
    const alike = others.findIndex((each) => !child.isFor(each));
    const most = Math.max(0, this.#pool.rules.childJobs - child.jobs - 1);
    return [first, ...others.slice(0, Math.min(most, alike === -1 ? others.length : alike))];
  }

  /** @param unsettled keys of runs; the child must be able to report those that are its own */
  serve(
    { child, runs }: Kept,
    { jobs, onUpdate, unsettled }: Pick<Serving, 'jobs' | 'onUpdate'> & { readonly unsettled: ReadonlySet<string> },
  ): Promise<readonly ServedRun[]> {
    const count = [...runs.keys()].filter((key) => unsettled.has(key)).length;
    const mostRssBytes = this.#pool.rules.childMemoryBytes;
    return child.serve({ jobs, onUpdate, unsettled: count, mostRssBytes });
  }

  /** Call it after a run, once its output is read. */
  note(
    kept: Kept,
    key: string,
    { served, termination, files }: Pick<WarmObservation, 'served' | 'termination' | 'files'>,
  ): void {
    const { child, runs } = kept;
    if (child.isAlone) return;
    if ('message' in served && termination.cause === null) {
      runs.set(key, child.files.isNamedFor(files));
      kept.isWorn ||= this.#isSpent(child, served.message);
    } else {
      // At its end the child has written down all ends that may be missing in the log.
      runs.clear();
      this.#retire(kept);
    }
  }

  /** Call it after all runs of a request. */
  giveBack(kept: Kept): void {
    kept.isBusy = false;
    if (kept.child.isAlone) this.#retire(kept);
  }

  /** The files that a run has left: only its output, or none; undefined: any. It answers once per run. */
  forget(key: string): 'output' | 'none' | undefined {
    const kept = this.#own().find(({ runs }) => runs.has(key));
    if (kept === undefined) return undefined;
    const isNamed = kept.runs.get(key);
    kept.runs.delete(key);
    if (kept.isWorn && kept.runs.size === 0) this.#retire(kept);
    return isNamed ? 'output' : 'none';
  }

  /** Without a log that records the ends, only the children themselves know them. */
  abandon(): void {
    for (const kept of this.#own()) {
      kept.child.abandon();
      this.#pool.kept.delete(kept);
    }
  }

  async close(): Promise<void> {
    for (const kept of this.#own()) this.#retire(kept);
    await Promise.all(this.#leaving);
  }

  #own(): Kept[] {
    return [...this.#pool.kept].filter(({ keeper }) => keeper === this);
  }

  /** A child of another keeper is free, too, once all its runs are in the log. */
  #isFree({ keeper, isBusy, isWorn, runs }: Kept): boolean {
    return !isBusy && !isWorn && (keeper === this || runs.size === 0);
  }

  /** The waiting children of a handler, the most recent first. */
  #findFree(path: string): Kept[] {
    return [...this.#pool.kept].filter((each) => each.child.path === path && this.#isFree(each)).toReversed();
  }

  #begin(kept: Kept): Kept {
    kept.child.files.begin();
    kept.keeper = this;
    kept.isBusy = true;
    // Moves the child to the end.
    this.#pool.kept.delete(kept);
    this.#pool.kept.add(kept);
    return kept;
  }

  async #takeNew(request: HandlerRequest, note: string | null): Promise<TakenChild | StartFailure> {
    const child = await this.#pool.start(request);
    if ('failure' in child) return child;
    const kept = { child, keeper: this, isBusy: true, isWorn: false, runs: new Map() };
    if (!child.isAlone) this.#pool.kept.add(kept);
    return { kept, note };
  }

  /** Replaces the children that have idled longest. */
  #makeRoom(): void {
    for (const kept of this.#pool.kept) {
      if (!this.#pool.isFull()) return;
      if (this.#isFree(kept)) this.#wear(kept);
    }
  }

  #isSpent(child: WarmChild, { rssBytes, isSpoilt, stray, trace }: EndMessage): boolean {
    const { childJobs, childMemoryBytes } = this.#pool.rules;
    const isFull = child.jobs >= childJobs || (rssBytes ?? 0) > childMemoryBytes;
    return isFull || this.#isOld(child) || isSpoilt === true || stray !== undefined || trace !== undefined;
  }

  #isOld({ startedAt }: WarmChild): boolean {
    return performance.now() - startedAt > this.#pool.rules.maxAgeMs;
  }

  #wear(kept: Kept): void {
    kept.isWorn = true;
    if (kept.runs.size === 0) this.#retire(kept);
  }

  /** Does not wait: the next child can start meanwhile. */
  #retire(kept: Kept): void {
    const { child } = kept;
    this.#pool.kept.delete(kept);
    const leaving = child.close().then(() => child.files.remove());
    this.#leaving.add(leaving);
    void leaving.finally(() => this.#leaving.delete(leaving));
  }
}
