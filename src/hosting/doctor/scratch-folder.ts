import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { DoctorPlace } from './place.ts';

/** Lets something be tried where the runner writes, in a folder of its own that is gone afterwards. */
export async function inScratchFolder<T>(
  { root, state }: DoctorPlace,
  use: (folder: string) => T | Promise<T>,
): Promise<T> {
  const folder = makeFolder(existsSync(state.path) ? state.path : root);
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Nothing can be tried: not even a folder could be made. */
export class UnwritablePlace extends Error {}

function makeFolder(parent: string): string {
  try {
    return mkdtempSync(join(parent, '.doctor-'));
  } catch (error) {
    // What follows is the name of a folder that is not there.
    const [reason] = (error as Error).message.split(',', 1);
    throw new UnwritablePlace(`nothing can be written to ${parent} (${reason})`);
  }
}
