import type { Store } from '../../store/contract.ts';
import { findUsual, RECENT_RUNS } from './judge.ts';

/** A run that goes on, far over its usual time. */
export interface SlowRun {
  readonly runId: number;
  /** `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly script: string;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  readonly runningMs: number;
  /** The median of its last successful runs. */
  readonly usualMs: number;
}

/**
 * Runs that have lasted far longer than those before them, the oldest first. Whether their process still lives is not
 * looked at: whoever recovers what is dead has come before.
 *
 * @param at now, in epoch milliseconds
 */
export async function findSlowRuns(store: Pick<Store, 'usual'>, at: number): Promise<SlowRun[]> {
  const slow: SlowRun[] = [];
  for (const { id: runId, script, startedAt } of await store.usual.running()) {
    const runningMs = at - startedAt;
    const before = await store.usual.successes(script, startedAt, RECENT_RUNS);
    const durations = before.flatMap(({ durationMs }) => durationMs ?? []);
    const usualMs = findUsual('duration', runningMs, durations);
    // On its way to a time that is usual, too, it passes those between.
    if (usualMs === null || durations.some((durationMs) => durationMs > runningMs)) continue;
    slow.push({ runId, script, startedAt, runningMs, usualMs });
  }
  return slow;
}
