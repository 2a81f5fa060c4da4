import type { EndMessage } from '../child/handler-contract.ts';
import { describeStray } from './end-warm-run.ts';
import type { HandlerRequest } from './handler-request.ts';
import type { StartFailure } from './start-process.ts';
import { type ServedRun, WarmChild } from './warm-child.ts';
import type { Watched } from './watch-run.ts';

/** When a child has served enough. */
export interface KeepingRules {
  readonly childJobs: number;
  readonly childMemoryBytes: number;
  readonly maxAgeMs: number;
}

/** A child that is ready for a run. */
export interface TakenChild {
  readonly child: WarmChild;
  /** What became of the one before; null: nothing to tell. */
  readonly note: string | null;
}

/** Keeps one child at a time, and replaces it when the next job could feel what others have left in it. */
export class WarmKeeper {
  readonly #rules: KeepingRules;
  readonly #leaving = new Set<Promise<unknown>>();
  /** Runs of which nothing is left but their output, or not even that. */
  readonly #served = new Map<number | string, boolean>();
  #child: WarmChild | null = null;
  /** It is to be replaced, but not before the end of its run is in the log: until then it alone may tell it. */
  #isWorn = false;

  constructor(rules: KeepingRules) {
    this.#rules = rules;
  }

  get waiting(): WarmChild | null {
    return this.#isWorn || this.#child?.hasEnded ? null : this.#child;
  }

  /** The child that waits, if it fits, else a new one. */
  async take(request: HandlerRequest): Promise<TakenChild | StartFailure> {
    const before = this.#child;
    if (!this.#isWorn && before?.isUsable(request) && !this.#isOld(before)) {
      before.files.begin();
      return { child: before, note: null };
    }
    this.#retire();
    const child = await WarmChild.start(request);
    if ('failure' in child) return child;
    this.#child = child;
    const stray = before?.stray ?? null;
    return { child, note: stray && describeStray(stray.runId, stray.sentence) };
  }

  /** After a run, once its output is read. */
  giveBack(
    child: WarmChild,
    runId: number | string,
    served: ServedRun,
    { termination }: Watched,
  ): void {
    const isFine = 'message' in served && termination.cause === null;
    if (isFine) this.#served.set(runId, child.files.isNamed);
    if (isFine) this.#isWorn = this.#isSpent(child, served.message);
    else this.#retire();
  }

  /** Which files a run has left: just its output, or none; undefined: any. To be asked once. */
  forget(runId: number | string): 'output' | 'none' | undefined {
    if (this.#isWorn) this.#retire();
    const isNamed = this.#served.get(runId);
    this.#served.delete(runId);
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
    const isFull = child.jobs >= childJobs || rssBytes > childMemoryBytes;
    return isFull || this.#isOld(child) || isSpoilt === true || stray !== undefined;
  }

  #isOld({ startedAt }: WarmChild): boolean {
    return performance.now() - startedAt > this.#rules.maxAgeMs;
  }

  /** Nobody waits for it: the next one can start meanwhile. */
  #retire(): void {
    const child = this.#child;
    this.#child = null;
    this.#isWorn = false;
    if (child === null) return;
    const leaving = child.close().then(() => child.files.remove());
    this.#leaving.add(leaving);
    void leaving.finally(() => this.#leaving.delete(leaving));
  }
}
