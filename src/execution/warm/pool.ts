import type { EndMessage, ProbeResult } from '../../child/contract.ts';
import { judgeEnd } from '../result/end.ts';
import { noWords, readNodeWords } from '../result/handler-reply.ts';
import { keepOutput } from '../result/output.ts';
import { maskResult, readProbeResult } from '../result/probe-result.ts';
import { addCpu, type KeptOutput, type Measurement, measureBySelf, noOutput, type RunEnd } from '../result/result.ts';
import { isDiskFull } from '../result/wording.ts';
import type { RunFiles } from '../run-files.ts';
import type { Exit, StartFailure } from '../start/process.ts';
import type { HandlerRequest } from '../start/request.ts';
import { countLeft } from '../watch/terminate.ts';
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
  const stray = 'message' in observed.served ? observed.served.message.stray : undefined;
  return judgeEnd(request, {
    ...{ ...observed, exit, result, output },
    measured: result === null ? measureFromOutside(child, observed, exit) : measureBySelf(result),
    words: result === null ? noWords : readNodeWords(result, request.masker),
    leftProcesses: exit === null ? 0 : await countLeft(child.pid),
    isDiskFull: output !== noOutput && isDiskFull(request.state.output),
    startFailure: null,
    firstFailure: null,
    isGarbled: 'exit' in observed.served && observed.served.isGarbled,
    notes: [observed.note, stray ? describeStray(stray.jobId, stray.sentence) : null],
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

/** When a child has served enough. */
interface KeepingRules {
  readonly childJobs: number;
  readonly childMemoryBytes: number;
  readonly maxAgeMs: number;
}

/** A child that is ready for a run. */
interface TakenChild {
  readonly child: WarmChild;
  /** What became of the one before; null: nothing to tell. */
  readonly note: string | null;
}

/** Keeps one child at a time, and replaces it when the next job could feel what others have left in it. */
export class WarmKeeper {
  readonly #rules: KeepingRules;
  readonly #leaving = new Set<Promise<unknown>>();
  /** Runs of which nothing is left but their output, or not even that. */
  readonly #served = new Map<string, boolean>();
  #child: WarmChild | null = null;
  /** It is to be replaced, but not before the end of its run is in the log: until then it alone may tell it. */
  #isWorn = false;

  constructor(rules: KeepingRules) {
    this.#rules = rules;
  }

  get isWorn(): boolean {
    return this.#isWorn;
  }

  get waiting(): WarmChild | null {
    return this.#isWorn || this.#child?.hasEnded ? null : this.#child;
  }

  /** The child that waits, if it fits, else a new one; for a job that is to be alone, one beside it. */
  async take(request: HandlerRequest): Promise<TakenChild | StartFailure> {
    if (isIsolated(request)) return await this.#takeNew(request, null);
    const before = this.#child;
    if (!this.#isWorn && before?.isUsable(request) && !this.#isOld(before)) {
      before.files.begin();
      return { child: before, note: null };
    }
    this.#retire();
    const stray = before?.stray ?? null;
    const taken = await this.#takeNew(request, stray && describeStray(stray.jobId, stray.sentence));
    if ('child' in taken) this.#child = taken.child;
    return taken;
  }

  async #takeNew(request: HandlerRequest, note: string | null): Promise<TakenChild | StartFailure> {
    const child = await WarmChild.start(request);
    return 'failure' in child ? child : { child, note };
  }

  /** Those of the first that it can serve one after the other, before it is to be replaced. */
  choose(
    child: WarmChild,
    [first, ...others]: readonly [HandlerRequest, ...HandlerRequest[]],
  ): readonly [HandlerRequest, ...HandlerRequest[]] {
    const alike = others.findIndex((each) => !child.isFor(each));
    const most = Math.max(0, this.#rules.childJobs - child.jobs - 1);
    return [first, ...others.slice(0, Math.min(most, alike === -1 ? others.length : alike))];
  }

  serve(child: WarmChild, serving: Omit<Serving, 'mostRssBytes'>): Promise<readonly ServedRun[]> {
    return child.serve({ ...serving, mostRssBytes: this.#rules.childMemoryBytes });
  }

  /** After a run, once its output is read. */
  giveBack(
    child: WarmChild,
    key: string,
    { served, termination, files }: Pick<WarmObservation, 'served' | 'termination' | 'files'>,
  ): void {
    const isFine = 'message' in served && termination.cause === null;
    if (child.isAlone) this.#dismiss(child);
    else if (isFine) {
      this.#served.set(key, child.files.isNamedFor(files));
      this.#isWorn = this.#isSpent(child, served.message);
    } else {
      // At its end it has written down all that may not be in the log.
      this.#served.clear();
      this.#retire();
    }
  }

  /** Which files a run has left: just its output, or none; undefined: any. To be asked once. */
  forget(key: string): 'output' | 'none' | undefined {
    const isNamed = this.#served.get(key);
    this.#served.delete(key);
    if (this.#isWorn && this.#served.size === 0) this.#retire();
    if (isNamed === undefined) return undefined;
    return isNamed ? 'output' : 'none';
  }

  /** Without a log to record its end in, a child's own word is all there is. */
  abandon(): void {
    this.#child?.abandon();
    this.#child = null;
  }

  async close(): Promise<void> {
    this.#retire();
    await Promise.all(this.#leaving);
  }

  #isSpent(child: WarmChild, { rssBytes, isSpoilt, stray }: EndMessage): boolean {
    const { childJobs, childMemoryBytes } = this.#rules;
    const isFull = child.jobs >= childJobs || (rssBytes ?? 0) > childMemoryBytes;
    return isFull || this.#isOld(child) || isSpoilt === true || stray !== undefined;
  }

  #isOld({ startedAt }: WarmChild): boolean {
    return performance.now() - startedAt > this.#rules.maxAgeMs;
  }

  #retire(): void {
    const child = this.#child;
    this.#child = null;
    this.#isWorn = false;
    if (child !== null) this.#dismiss(child);
  }

  /** Nobody waits for it: the next one can start meanwhile. */
  #dismiss(child: WarmChild): void {
    const leaving = child.close().then(() => child.files.remove());
    this.#leaving.add(leaving);
    void leaving.finally(() => this.#leaving.delete(leaving));
  }
}
