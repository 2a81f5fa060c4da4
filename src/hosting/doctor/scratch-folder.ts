import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { DoctorPlace } from './place.ts';

/** Lets something be tried where the runner writes, in a folder of its own that is gone afterwards. */
export async function inScratchFolder<T>(
  { root, state }: DoctorPlace,
  use: (folder: string) => T | Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(existsSync(state.path) ? state.path : root, '.doctor-'));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
