const LONGEST_MS = 30_000;

/** Stands still, as a runner that is stopped or throttled, or whose log is locked. */
export function standStill(isOver: () => boolean): void {
  const deadline = performance.now() + LONGEST_MS;
  while (!isOver()) {
    if (performance.now() > deadline) throw new Error(`Not within ${LONGEST_MS} ms.`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  }
}
