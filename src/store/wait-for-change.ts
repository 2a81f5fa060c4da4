import type { FSWatcher } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { StateFolder } from '../config/state-folder.ts';
import { watchFiles } from './watch-files.ts';

/** Why a wait ended: another process has committed; the time has come; it was told to end. */
export type WaitEnd = 'changed' | 'due' | 'stopped';

export interface Wait {
  readonly folder: StateFolder;
  readonly hasChanged: () => boolean;
  /** Epoch milliseconds; null: no end. */
  readonly untilMs: number | null;
  readonly signals: readonly AbortSignal[];
  /** So long nothing is looked at, not even at first. */
  readonly restMs: number;
  /** How often the log is looked at while its files are watched. */
  readonly slowPollMs: number;
  /** The same where they cannot be. */
  readonly blindPollMs: number;
}

/** A commit that waits for a fast disk is there within this; no timer is as fine. */
const SPIN_MS = 1;

/** A long transaction writes all the time, and is not to be looked at all the time. */
const SPIN_REST_MS = 20;

/** On the only one the writer would be kept from its commit. */
const hasOtherProcessor = availableParallelism() > 1;

const FIRST_POLL_MS = 1;
const POLL_GROWTH = 1.5;

/** Sleeps until the log has changed. */
export function waitForChange(wait: Wait): Promise<WaitEnd> {
  if (wait.signals.some((signal) => signal.aborted)) return Promise.resolve('stopped');
  return new Promise((resolve) => new Sleeper(wait, resolve).begin());
}

/**
 * A commit is seen by others only when its last write has reached the disk, and no file tells of that.
 * So each write is followed by looks at growing intervals, and so is the beginning: the last write may
 * have come just before.
 */
class Sleeper {
  readonly #wait: Wait;
  readonly #resolve: (how: WaitEnd) => void;
  readonly #stop = () => this.#end('stopped');
  #watcher: FSWatcher | null = null;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #spinUntilMs = Number.NEGATIVE_INFINITY;
  #pollMs = FIRST_POLL_MS;
  #longestPollMs: number;

  constructor(wait: Wait, resolve: (how: WaitEnd) => void) {
    this.#wait = wait;
    this.#resolve = resolve;
    this.#longestPollMs = wait.slowPollMs;
  }

  begin(): void {
    const { restMs, signals } = this.#wait;
    for (const signal of signals) signal.addEventListener('abort', this.#stop);
    if (restMs > 0) this.#timer = setTimeout(() => this.#watch(), Math.min(restMs, this.#leftMs()));
    else this.#watch();
  }

  /** Watches first, then looks: between the two nothing can be missed. */
  #watch(): void {
    const { folder, blindPollMs } = this.#wait;
    const pollBlindly = () => {
      this.#longestPollMs = blindPollMs;
    };
    this.#watcher = watchFiles(folder, {
      onWrite: () => {
        this.#allowSpin();
        this.#pollQuickly();
      },
      onMoved: () => this.#end('changed'),
      onFailure: pollBlindly,
    });
    if (this.#watcher === null) pollBlindly();
    this.#pollQuickly();
  }

  #allowSpin(): void {
    const now = performance.now();
    if (hasOtherProcessor && now > this.#spinUntilMs + SPIN_REST_MS)
      this.#spinUntilMs = now + SPIN_MS;
  }

  #pollQuickly(): void {
    this.#clear();
    this.#pollMs = FIRST_POLL_MS;
    this.#poll();
  }

  #poll(): void {
    const leftMs = this.#leftMs();
    if (this.#wait.hasChanged()) this.#end('changed');
    else if (leftMs <= 0) this.#end('due');
    else if (performance.now() < this.#spinUntilMs) this.#spin();
    else this.#sleep(Math.min(this.#pollMs, leftMs));
  }

  #spin(): void {
    this.#immediate = setImmediate(() => this.#poll());
  }

  #sleep(ms: number): void {
    this.#timer = setTimeout(() => this.#poll(), ms);
    this.#pollMs = Math.min(this.#pollMs * POLL_GROWTH, this.#longestPollMs);
  }

  #leftMs(): number {
    const { untilMs } = this.#wait;
    return untilMs === null ? Number.POSITIVE_INFINITY : untilMs - Date.now();
  }

  #clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  #end(how: WaitEnd): void {
    this.#clear();
    this.#watcher?.close();
    for (const signal of this.#wait.signals) signal.removeEventListener('abort', this.#stop);
    this.#resolve(how);
  }
}
