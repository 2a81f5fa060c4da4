import { printableLine } from '../printable.ts';
import type { RunningRun } from '../select-running.ts';

/** What is to be said of a run beside that it runs: no more than can be seen from here; '' for nothing. */
export function describeLiveness({ isOrphan, liveness, host }: RunningRun): string {
  if (liveness === 'dead') return 'cut off: its process is gone';
  if (liveness === 'alive') return isOrphan ? 'runs on though its runner is gone' : '';
  return `${isOrphan ? 'may still run, ' : ''}on ${printableLine(host)}`;
}
