/** How scripts that were not started are treated: left to the next pass of any tier, or cancelled. */
type Rest = 'defer' | 'cancel';

/** `replaced`: the package or Node was, so that no script can begin. */
type StopCause = 'replaced';

/** The reason why no further script may start; the first reason stays. */
export interface StopRequest {
  /** Null while work may go on. */
  readonly reason: string | null;
  /** What the reason is about, where somebody asks; null: anything else. */
  readonly cause: StopCause | null;
  readonly rest: Rest;
  /** Whether someone else asked for the stop, as by a signal: then other ends at that time may have the same cause. */
  readonly isTold: boolean;
  /** Aborted as soon as there is a reason, so that all waits for work end. */
  readonly noMore: AbortSignal;
  /** Aborted when running scripts must end, too. */
  readonly signal: AbortSignal;
  /** Aborted when running scripts must end at once. */
  readonly kill: AbortSignal;
  /** Starts nothing more; running scripts finish. */
  startNothing(reason: string, cause?: StopCause): void;
  /** Like `startNothing`, at someone else's request. */
  finish(reason: string): void;
  /** Ends running scripts, and starts nothing more. */
  endAll(reason: string, rest: Rest): void;
  /** Ends running scripts at once, by SIGKILL. */
  killAll(): void;
}

export function createStopRequest(): StopRequest {
  const controller = new AbortController();
  const killer = new AbortController();
  const closing = new AbortController();
  const state = {
    reason: null as string | null,
    cause: null as StopCause | null,
    rest: 'defer' as Rest,
    isTold: false,
    noMore: closing.signal,
    signal: controller.signal,
    kill: killer.signal,
    startNothing(reason: string, cause?: StopCause): void {
      if (state.reason === null) Object.assign(state, { reason, cause: cause ?? null });
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
