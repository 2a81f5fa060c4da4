/** What becomes of scripts that were not started: left to the next pass of any tier, or given up. */
type Rest = 'defer' | 'cancel';

/** Why no further script may start; the first reason stays. */
export interface StopRequest {
  /** Null while nothing speaks against going on. */
  readonly reason: string | null;
  readonly rest: Rest;
  /** Whether somebody else wants it, as by a signal: then whatever else ends may have been meant, too. */
  readonly isTold: boolean;
  /** Aborted as soon as there is a reason: whoever waits for work waits no longer. */
  readonly noMore: AbortSignal;
  /** Aborted when running scripts, too, are to end. */
  readonly signal: AbortSignal;
  /** Aborted when they are to end without a word. */
  readonly kill: AbortSignal;
  /** Lets what runs come to its end and starts nothing more. */
  startNothing(reason: string): void;
  /** The same, as somebody else wants it. */
  finish(reason: string): void;
  /** Ends what runs and starts nothing more. */
  endAll(reason: string, rest: Rest): void;
  /** Ends what runs at once, by SIGKILL. */
  killAll(): void;
}

export function createStopRequest(): StopRequest {
  const controller = new AbortController();
  const killer = new AbortController();
  const closing = new AbortController();
  const state = {
    reason: null as string | null,
    rest: 'defer' as Rest,
    isTold: false,
    noMore: closing.signal,
    signal: controller.signal,
    kill: killer.signal,
    startNothing(reason: string): void {
      state.reason ??= reason;
      closing.abort();
    },
    finish(reason: string): void {
      state.isTold = true;
      state.startNothing(reason);
    },
    endAll(reason: string, rest: Rest): void {
      state.finish(reason);
      state.rest = rest;
      controller.abort();
    },
    killAll: () => killer.abort(),
  };
  return state;
}
