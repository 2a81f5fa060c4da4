import type { Lingering } from '../contract.ts';
import { writeResultFile } from '../record-end.ts';

/** Most scripts have ended by then. */
const FIRST_LOOK_MS = 20;
const LONGEST_GAP_MS = 60_000;

/** What a script's own code has come to. */
export type CodeEnd = Pick<Lingering, 'isFunction' | 'afterMs'>;

/**
 * Writes down what keeps a process running whose script has nothing more to do, and again when that changes: whoever
 * ends it at its time limit cannot ask any more.
 *
 * @returns what was written down last; null: nothing
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

/** Node knows some thirty. */
const MOST_KINDS = 40;
