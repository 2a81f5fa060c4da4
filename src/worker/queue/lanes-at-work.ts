/**
 * Which lanes of a worker have a job in hand: its end may bring others, such as its children, so none of
 * the lanes leaves before it.
 */
export interface LanesAtWork {
  begin(lane: object): void;
  /** Nothing happens if it had none. */
  end(lane: object): void;
  /** How much is left of this time without a job in any lane; infinite while there is one. */
  leftMs(restMs: number): number;
}

/** @param onRest told when the last one has ended its job and has taken no other */
export function createLanesAtWork(onRest: () => void, now = () => performance.now()): LanesAtWork {
  const busy = new Set<object>();
  let restSince = now();
  return {
    begin: (lane) => void busy.add(lane),
    end: (lane) => {
      if (!busy.delete(lane) || busy.size > 0) return;
      restSince = now();
      onRest();
    },
    leftMs: (restMs) => (busy.size > 0 ? Number.POSITIVE_INFINITY : restSince + restMs - now()),
  };
}
