import { listNames } from '../config/list-names.ts';
import type { StateFolder } from '../config/state-folder.ts';

/**
 * The highest number of a run that has files here. A log made anew goes on from it: else its runs
 * would get the files of those that the log before tells of, some of which may still run.
 */
export function highestRunNumber({ output, results, temporary }: StateFolder): number {
  const names = [output, results, temporary].flatMap(listNames);
  return Math.max(0, ...names.flatMap((name) => /^\d{1,15}(?=\.|$)/.exec(name) ?? []).map(Number));
}
