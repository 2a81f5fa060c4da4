import { describeStray } from './end-warm-run.ts';
import type { HandlerRequest } from './handler-request.ts';
import type { RunFiles } from './run-files.ts';
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
  /** Runs of which nothing is left but their output. */
  readonly #served = new Set<number | string>();
  #child: WarmChild | null = null;

  constructor(rules: KeepingRules) {
    this.#rules = rules;
  }

  get waiting(): WarmChild | null {
    return this.#child?.hasEnded ? null : this.#child;
  }

  /** The child that waits, if it fits, else a new one. */
  async take(request: HandlerRequest, runFiles: RunFiles): Promise<TakenChild | StartFailure> {
    const before = this.#child;
    const isFit = before?.isUsable(request) && !this.#isOld(before) && before.files.begin(runFiles);
    if (before !== null && isFit) return { child: before, note: null };
    this.#retire();
    const child = await WarmChild.start(request);
    if ('failure' in child) return child;
    this.#child = child;
    child.files.begin(runFiles);
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
    if (isFine) this.#served.add(runId);
    if (!isFine || this.#hasServedEnough(child, served.message.rssBytes)) this.#retire();
    else if (served.message.isSpoilt || served.message.stray) this.#retire();
  }

  /** Whether a run's only file is its output; asked once. */
  forget(runId: number | string): boolean {
    return this.#served.delete(runId);
  }

  async close(): Promise<void> {
    this.#retire();
    await Promise.all(this.#leaving);
  }

  #hasServedEnough(child: WarmChild, rssBytes: number): boolean {
    const { childJobs, childMemoryBytes } = this.#rules;
    return child.jobs >= childJobs || rssBytes > childMemoryBytes || this.#isOld(child);
  }

  #isOld({ startedAt }: WarmChild): boolean {
    return performance.now() - startedAt > this.#rules.maxAgeMs;
  }

  /** Nobody waits for it: the next one can start meanwhile. */
  #retire(): void {
    const child = this.#child;
    this.#child = null;
    if (child === null) return;
    const leaving = child.close().then(() => child.files.remove());
    this.#leaving.add(leaving);
    void leaving.finally(() => this.#leaving.delete(leaving));
  }
}
