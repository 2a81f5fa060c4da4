import { readFileSync } from 'node:fs';
import { readStatFields } from './process-identity.ts';

/**
 * Something that changes whenever a process gets on: by CPU time, to the nanosecond where the kernel
 * tells it, or by reading and writing.
 *
 * @returns null where there is no `/proc`, or the process is gone
 */
export function readProgress(pid: number): string | null {
  const stat = readStatFields(pid);
  if (stat === null) return null;
  const [state] = stat;
  // On its way, however slowly a throttled processor or disk lets it: no two looks are the same.
  if (state === 'R' || state === 'D') return `${state} ${performance.now()}`;
  return [stat[11], stat[12], readText(pid, 'schedstat'), readText(pid, 'io')].join(' ');
}

function readText(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}
