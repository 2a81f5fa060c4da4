import { existsSync } from 'node:fs';
import { loadavg } from 'node:os';
import { countOwnProcesses } from '../process/count-processes.ts';
import { readFreeMemory } from '../process/free-memory.ts';

/** What of the machine the limits are about; null where it is not known. */
export interface Machine {
  readonly load: number | null;
  readonly freeMemoryBytes: number | null;
  readonly processes: number | null;
}

/** Only what is asked for is looked up. */
export function readMachine(wanted: Readonly<Record<keyof Machine, boolean>>): Machine {
  return {
    load: wanted.load ? readLoad() : null,
    freeMemoryBytes: wanted.freeMemoryBytes ? readFreeMemory() : null,
    processes: wanted.processes ? countOwnProcesses() : null,
  };
}

/** Of the last minute. Without `/proc` Node says 0, or asks the kernel past what a container may see. */
function readLoad(): number | null {
  return existsSync('/proc/loadavg') ? (loadavg()[0] ?? null) : null;
}
