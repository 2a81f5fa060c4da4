/**
 * Finds out how many jobs at the same time a machine bears: one more after the other as long as they
 * take no longer than before, a fifth fewer when they do (additive increase, multiplicative decrease).
 */
export interface AdaptiveLimit {
  /** How many jobs may run now. */
  limit(): number;
  /** A job has ended, after so long. */
  note(durationMs: number): void;
}

interface Bounds {
  readonly least: number;
  readonly most: number;
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number;
}

const WINDOW_MS = 10_000;
const SLOWER_FACTOR = 1.1;
const DECREASE_FACTOR = 0.8;

interface Window {
  readonly jobs: number;
  readonly totalMs: number;
}

const emptyWindow: Window = { jobs: 0, totalMs: 0 };

export function createAdaptiveLimit({ least, most, now }: Bounds): AdaptiveLimit {
  let target = least;
  let began = now();
  let previous = emptyWindow;
  let current = emptyWindow;
  const turn = (): void => {
    if (now() - began < WINDOW_MS) return;
    if (isSlower(current, previous)) target = Math.max(target * DECREASE_FACTOR, least);
    else if (current.jobs > 0) target = Math.min(target + 1, most);
    previous = current;
    current = emptyWindow;
    began = now();
  };
  return {
    limit: () => {
      turn();
      return Math.floor(target);
    },
    note: (durationMs) => {
      turn();
      current = { jobs: current.jobs + 1, totalMs: current.totalMs + durationMs };
    },
  };
}

function isSlower(current: Window, previous: Window): boolean {
  if (current.jobs === 0 || previous.jobs === 0) return false;
  return current.totalMs / current.jobs > (previous.totalMs / previous.jobs) * SLOWER_FACTOR;
}
