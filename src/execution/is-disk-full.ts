import { statfsSync } from 'node:fs';

/** Less than the smallest file takes. */
const NOTHING_BYTES = 4096;

/** Whether nothing more can be written to a folder; what a used up quota leaves cannot be asked. */
export function isDiskFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < NOTHING_BYTES;
  } catch {
    return false;
  }
}
