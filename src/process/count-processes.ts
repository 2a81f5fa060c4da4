import { statSync } from 'node:fs';
import { listPids } from './list-pids.ts';

/** How many processes this user has, the runner's own included; null where there is no `/proc`. */
export function countOwnProcesses(): number | null {
  const uid = process.getuid?.();
  const pids = listPids();
  return pids.length === 0 ? null : pids.filter((pid) => readOwner(pid) === uid).length;
}

function readOwner(pid: number): number | null {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? null;
}
