/** How long to rest before the next wait, so that others' commits do not keep a waiting worker busy. */
export interface WakePace {
  /** There was something to do. */
  noteFound(): void;
  /** A wait ended because of a change. */
  noteWake(): void;
  restMs(): number;
}

/** So many wake-ups for nothing in a row are normal: a job that another worker takes is some commits. */
const FREE_WAKES = 8;
const LONGEST_REST_MS = 20;

/** Without a wake-up for so long, the others are at rest. */
const QUIET_MS = 100;

export function createWakePace(now: () => number = () => performance.now()): WakePace {
  let wokenAtMs = Number.NEGATIVE_INFINITY;
  let wakesForNothing = 0;
  return {
    noteFound: () => {
      wakesForNothing = 0;
    },
    noteWake: () => {
      wakesForNothing = now() - wokenAtMs < QUIET_MS ? wakesForNothing + 1 : 1;
      wokenAtMs = now();
    },
    restMs: () => Math.min(Math.max(wakesForNothing - FREE_WAKES, 0), LONGEST_REST_MS),
  };
}
