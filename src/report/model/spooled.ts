import { hasSpool, listSpoolFiles } from '../../store/spool/files.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';

/** How many runs were recorded without the log, and wait to be replayed into it. */
export async function countSpooledRuns(states: readonly StateFolder[]): Promise<number> {
  const files = states.filter(hasSpool).flatMap(listSpoolFiles);
  if (files.length === 0) return 0;
  const { readSpool } = await import('../../store/spool/read.ts');
  const runs = new Set<string>();
  for (const { path } of files) {
    try {
      for (const line of readSpool(path)) {
        if ('spoolId' in line && line.type !== 'worker') runs.add(line.spoolId);
      }
    } catch {
      // Taken in meanwhile, or somebody else's: nobody takes that in.
    }
  }
  return runs.size;
}

export function describeSpooled(runs: number): string {
  const wait = runs === 1 ? 'One run waits' : `${runs} runs wait`;
  return `${wait} in the spool, recorded without the log; the next pass takes ${runs === 1 ? 'it' : 'them'} in.`;
}
