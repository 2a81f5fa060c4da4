import type { Lingering } from '../contract.ts';
import { writeResultFile } from '../record-end.ts';

/** Most scripts have ended by this time. */
const FIRST_LOOK_MS = 20;
const LONGEST_GAP_MS = 60_000;

/** How a script's own code has ended. */
export type CodeEnd = Pick<Lingering, 'isFunction' | 'afterMs'>;

/**
 * Records what keeps a process running after its script's code has ended, and again when that changes: a runner that
 * ends it at its time limit can no longer ask it.
 *
 * @returns a function that gives the last record; null: none
 */
export function watchLingering(resultPath: string, end: CodeEnd): () => Lingering | null {
  let told: Lingering | null = null;
  const look = (delayMs: number): void => {
    const lingering = { ...end, resources: [...new Set(process.getActiveResourcesInfo())].slice(0, MOST_KINDS) };
    if (told?.resources.join() !== lingering.resources.join()) writeResultFile(resultPath, { lingering });
    told = lingering;
    lookAfter(Math.min(delayMs * 2, LONGEST_GAP_MS));
  };
  const lookAfter = (delayMs: number): void => {
    setTimeout(look, delayMs, delayMs).unref();
  };
  lookAfter(FIRST_LOOK_MS);
  return () => told;
}

/** Node knows about thirty kinds. */
const MOST_KINDS = 40;
