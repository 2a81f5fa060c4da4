import prettyMilliseconds from 'pretty-ms';
import type { Script } from '../../discovery/script.ts';

/** How long one call of the runner may take, over all its passes. */
export interface Budget {
  readonly budgetMs: number;
  /** Start of the call, by `performance.now()`. */
  readonly startedAt: number;
  /** Set once a script was started within the budget. */
  isBegun: boolean;
}

/** Null: the duration of the script is unknown. */
export type UsualDuration = (script: Script) => Promise<number | null>;

/**
 * Starts no script that usually takes longer than the time left. The first script starts however long it takes and
 * however late the host is: otherwise it would never run.
 *
 * @returns a function to call before a script starts: null, or why it must not start now
 */
export function admitWithinBudget(
  budget: Budget,
  usualDurationMs: UsualDuration,
): (script: Script) => Promise<string | null> {
  const { budgetMs, startedAt } = budget;
  return async (script) => {
    if (!budget.isBegun) {
      budget.isBegun = true;
      return null;
    }
    const leftMs = Math.round(startedAt + budgetMs - performance.now());
    if (leftMs <= 0) return `the budget of ${tell(budgetMs)} is used up`;
    const usualMs = await usualDurationMs(script);
    if (usualMs === null || usualMs <= leftMs) return null;
    return `${script.name} usually takes ${tell(Math.round(usualMs))}, and only ${tell(leftMs)} of the budget of ${tell(budgetMs)} is left`;
  };
}

const tell = (ms: number): string => prettyMilliseconds(ms);
