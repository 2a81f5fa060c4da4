/**
 * Wakes the lanes of a worker that have nothing to do: the log's watch tells them only of what others have
 * written, and an end may free a group, release children, or set a retry.
 */
export interface LaneBell {
  /** Aborted when it rings next; to be asked for before looking for work, not after it. */
  next(): AbortSignal;
  ring(): void;
}

/** @param noMore rings, too: nobody is to wait then */
export function createLaneBell(noMore: AbortSignal): LaneBell {
  let controller = new AbortController();
  const ring = (): void => {
    const rung = controller;
    controller = new AbortController();
    // Without a reason Node makes an error with a stack for each job: 20 µs.
    rung.abort('rung');
  };
  noMore.addEventListener('abort', ring, { once: true });
  return { next: () => controller.signal, ring };
}
