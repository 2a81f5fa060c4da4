import type { EndMessage, ProbeResult, Stray, Trace } from '../../child/contract.ts';
import { judgeEnd } from '../result/end.ts';
import { noWords, readNodeWords } from '../result/handler-reply.ts';
import { keepOutput } from '../result/output.ts';
import { maskResult, readProbeResult } from '../result/probe-result.ts';
import { addCpu, type KeptOutput, type Measurement, measureBySelf, noOutput, type RunEnd } from '../result/result.ts';
import { isDiskFull } from '../result/wording.ts';
import type { RunFiles } from '../run-files.ts';
import type { Exit, StartFailure } from '../start/process.ts';
import type { HandlerRequest } from '../start/request.ts';
import { findLeft } from '../watch/terminate.ts';
import type { Watched } from '../watch/watch.ts';
import { isIsolated, type ServedRun, type Serving, WarmChild } from './child.ts';

/** What was seen of a run in a child. */
interface WarmObservation extends Watched {
  readonly served: ServedRun;
  readonly files: RunFiles;
  readonly durationMs: number;
  /** Of those that it has run one after the other, only the last can have printed anything. */
  readonly isLast: boolean;
  /** What to say of the child besides. */
  readonly note: string | null;
}

/** Puts together how a run in a warm child ended: the handler alone, or the process with it. */
export async function endWarmRun(
  request: HandlerRequest,
  child: WarmChild,
  observed: WarmObservation,
): Promise<RunEnd> {
  const exit = 'exit' in observed.served ? observed.served.exit : null;
  const result = readResult(request, observed);
  const output = await keepWarmOutput(request, child, observed);
  const { stray, trace } = 'message' in observed.served ? observed.served.message : {};
  return await judgeEnd(request, {
    ...{ ...observed, exit, result, output, pid: child.pid },
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

/** From itself; where its process ended with it, from the file that it has left at its end. */
function readResult({ masker }: HandlerRequest, { served, files }: WarmObservation): ProbeResult | null {
  if ('message' in served) return maskResult(served.message.end, masker);
  // Who is killed writes nothing: what lies there is older than this run.
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

/** What an earlier run has left behind and that failed after its end. */
export function describeStray(jobId: number | null, sentence: string): string {
  const what = jobId === null ? 'an error of an earlier run' : `something of an earlier run of job ${jobId}`;
  return `${what} failed after that run had ended (${sentence}), so its process was replaced`;
}

function describeTrace({ kind, what }: Trace): string {
  const left = kind === 'changed' ? `changed ${what}, which later jobs` : `left a ${what}() running, which later jobs`;
  return `it ${left} of its process would have met, so its process was replaced`;
}

/** What the kernel has counted for the whole life of the process, without its earlier jobs. */
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

/** How many children are kept, and when one has served enough. */
interface KeepingRules {
  readonly executors: number;
  /** Whether the host has room for more children than executors. */
  readonly hasRoom: () => boolean;
  readonly childJobs: number;
  readonly childMemoryBytes: number;
  readonly maxAgeMs: number;
}

/** Each takes 10 MB and what its handler loads, and 7 threads, which hosts count. */
const MOST_SPARE = 9;

/** A child with what its keeper knows of it. */
interface Kept {
  readonly child: WarmChild;
  /** Whose runs it has served last. */
  keeper: WarmKeeper;
  isBusy: boolean;
  /** It is to be replaced, but not before the ends of its runs are in the log: until then it alone may tell them. */
  isWorn: boolean;
  /** Its runs that may not be in the log: of each nothing is left but its output, or not even that. */
  readonly runs: Map<string, boolean>;
}

/** A child that is ready for a run. */
export interface TakenChild {
  readonly kept: Kept;
  /** What became of the one before; null: nothing to tell. */
  readonly note: string | null;
}

/** What the executors of a worker share: a child is kept for any of them. */
export class WarmPool {
  readonly rules: KeepingRules;
  /** Those that have idled longest come first. */
  readonly kept = new Set<Kept>();
  #starting = 0;

  constructor(rules: KeepingRules) {
    this.rules = rules;
  }

  /** One for each executor has room, whatever else does not. */
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
 * Keeps a child for each of the handlers that were called last, as no handler is to feel what others have done to
 * built-in objects or shared modules; and replaces it when its next job could feel what those before it have left.
 */
export class WarmKeeper {
  readonly #pool: WarmPool;
  readonly #leaving = new Set<Promise<unknown>>();

  constructor(pool: WarmPool) {
    this.#pool = pool;
  }

  /** Whether one is to be replaced as soon as its runs are in the log. */
  get isWorn(): boolean {
    return this.#own().some((each) => each.isWorn);
  }

  /** The one that has served last. */
  get waiting(): WarmChild | null {
    const waiting = this.#own().filter(({ child, isWorn }) => !isWorn && !child.hasEnded);
    return waiting.at(-1)?.child ?? null;
  }

  isReadyFor({ script }: HandlerRequest): boolean {
    return this.#findFree(script.path)[0]?.child.isReady === true;
  }

  /** A child of the handler that waits, if it fits, else a new one; for a job that is to be alone, one beside it. */
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

  /** Those of the first that it can serve one after the other, before it is to be replaced. */
  choose(
    { child }: Kept,
    [first, ...others]: readonly [HandlerRequest, ...HandlerRequest[]],
  ): readonly [HandlerRequest, ...HandlerRequest[]] {
    const alike = others.findIndex((each) => !child.isFor(each));
    const most = Math.max(0, this.#pool.rules.childJobs - child.jobs - 1);
    return [first, ...others.slice(0, Math.min(most, alike === -1 ? others.length : alike))];
  }

  /** @param unsettled runs of which the child is to tell, should nobody else do so, if they were its own */
  serve(
    { child, runs }: Kept,
    { jobs, onUpdate, unsettled }: Pick<Serving, 'jobs' | 'onUpdate'> & { readonly unsettled: ReadonlySet<string> },
  ): Promise<readonly ServedRun[]> {
    const count = [...runs.keys()].filter((key) => unsettled.has(key)).length;
    const mostRssBytes = this.#pool.rules.childMemoryBytes;
    return child.serve({ jobs, onUpdate, unsettled: count, mostRssBytes });
  }

  /** After a run, once its output is read. */
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
      // At its end it has written down all that may not be in the log.
      runs.clear();
      this.#retire(kept);
    }
  }

  /** After all of its runs. */
  giveBack(kept: Kept): void {
    kept.isBusy = false;
    if (kept.child.isAlone) this.#retire(kept);
  }

  /** Which files a run has left: just its output, or none; undefined: any. To be asked once. */
  forget(key: string): 'output' | 'none' | undefined {
    const kept = this.#own().find(({ runs }) => runs.has(key));
    if (kept === undefined) return undefined;
    const isNamed = kept.runs.get(key);
    kept.runs.delete(key);
    if (kept.isWorn && kept.runs.size === 0) this.#retire(kept);
    return isNamed ? 'output' : 'none';
  }

  /** Without a log to record its end in, a child's own word is all there is. */
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

  /** Another's, too, once all that it has served is in the log. */
  #isFree({ keeper, isBusy, isWorn, runs }: Kept): boolean {
    return !isBusy && !isWorn && (keeper === this || runs.size === 0);
  }

  /** Of a handler, those that wait, the last one first. */
  #findFree(path: string): Kept[] {
    return [...this.#pool.kept].filter((each) => each.child.path === path && this.#isFree(each)).toReversed();
  }

  #begin(kept: Kept): Kept {
    kept.child.files.begin();
    kept.keeper = this;
    kept.isBusy = true;
    // It comes last now.
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

  /** Replaces those that have idled longest. */
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

  /** Nobody waits for it: the next one can start meanwhile. */
  #retire(kept: Kept): void {
    const { child } = kept;
    this.#pool.kept.delete(kept);
    const leaving = child.close().then(() => child.files.remove());
    this.#leaving.add(leaving);
    void leaving.finally(() => this.#leaving.delete(leaving));
  }
}
