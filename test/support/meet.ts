import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

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
