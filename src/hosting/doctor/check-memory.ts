import { totalmem } from 'node:os';
import { sizeOf } from './amounts.ts';
import { type Check, ok, warning } from './finding.ts';

const MEGABYTE = 1024 * 1024;
/** A runner with one Node script takes about as much. */
const LEAST_BYTES = 150 * MEGABYTE;

export const checkMemory: Check = {
  name: 'memory',
  run: () => {
    const [total, available] = [totalmem(), process.availableMemory()];
    // Without /proc nobody knows.
    if (available === 0) return [ok(`${sizeOf(total)} in all; how much is available is unknown`)];
    const limit = process.constrainedMemory();
    const isLimited = limit > 0 && limit < total;
    const found = isLimited
      ? `${sizeOf(available)} available of the ${sizeOf(limit)} that the account may use`
      : `${sizeOf(available)} available of ${sizeOf(total)}`;
    if (available >= LEAST_BYTES) return [ok(found)];
    return [
      warning(
        `only ${found}: a Node script with its runner takes about 100MB`,
        "Set `@memory` in scripts, `limits: { minFreeMemory: '150mb' }` in the settings, or ask for more memory.",
      ),
    ];
  },
};
