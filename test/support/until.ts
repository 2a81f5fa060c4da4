import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 10;

/** Loaded hosts take their time; a test has twice as long. */
const LONGEST_MS = 90_000;

/** Waits until the condition holds, and fails when it does not within the deadline. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = LONGEST_MS,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`);
    await sleep(POLL_MS);
  }
}

const WITHIN_MS = 90_000;

/** Holds this process up until so many have come to the same place, so that they go on together. */
export function meet(root: string, place: string, count: number): void {
  const folder = join(root, `meet-${place}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, String(process.pid)), '');
  const deadline = Date.now() + WITHIN_MS;
  while (readdirSync(folder).length < count) {
    // A moment's sleep: on two processors, eight that wait busily keep the others from coming.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    if (Date.now() > deadline) throw new Error(`Only some of ${count} came to ${place}.`);
  }
}

const STANDSTILL_MS = 30_000;

/** Stands still, as a runner that is stopped or throttled, or whose log is locked. */
export function standStill(isOver: () => boolean): void {
  const deadline = performance.now() + STANDSTILL_MS;
  while (!isOver()) {
    if (performance.now() > deadline) throw new Error(`Not within ${STANDSTILL_MS} ms.`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  }
}

/** As `Map.groupBy`, which TypeScript's library for the oldest Node here does not have. */
export function groupBy<Item, Key>(
  items: readonly Item[],
  keyOf: (item: Item) => Key,
): ReadonlyMap<Key, readonly Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
