import { existsSync, statSync } from 'node:fs';
import { loadavg } from 'node:os';
import formatBytes from 'bytes';
import { readFreeMemory } from '../../process/memory.ts';
import { listPids } from '../../process/tree.ts';
import type { Limits } from '../../settings/settings.ts';

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

/** Why the machine has no room for another script; null: it has, as far as is known. */
export function describeLack(limits: Limits, machine: Machine): string | null {
  const { maxLoad, minFreeMemoryBytes, maxProcesses } = limits;
  const { load, freeMemoryBytes, processes } = machine;
  if (isAbove(load, maxLoad)) return `the load average is ${load?.toFixed(1)} (maxLoad ${maxLoad})`;
  if (isAbove(minFreeMemoryBytes, freeMemoryBytes)) {
    return `only ${size(freeMemoryBytes)} of memory is free (minFreeMemory ${size(minFreeMemoryBytes)})`;
  }
  if (isAbove(processes, maxProcesses)) {
    return `${processes} processes are running (maxProcesses ${maxProcesses})`;
  }
  return null;
}

/** Limits that nobody can watch here, in one sentence; null: there are none. */
export function describeUnknown(limits: Limits, machine: Machine): string | null {
  const unknown = [
    limits.maxLoad !== null && machine.load === null ? 'maxLoad' : null,
    limits.minFreeMemoryBytes !== null && machine.freeMemoryBytes === null ? 'minFreeMemory' : null,
    limits.maxProcesses !== null && machine.processes === null ? 'maxProcesses' : null,
  ].filter((each) => each !== null);
  if (unknown.length === 0) return null;
  return `${unknown.join(' and ')} cannot be watched here: there is no /proc`;
}

/** An unknown figure, or no limit, speaks against nothing. */
function isAbove(one: number | null, other: number | null): boolean {
  return one !== null && other !== null && one > other;
}

const size = (bytes: number | null): string =>
  formatBytes(bytes ?? 0, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;

/** How many processes this user has, the runner's own included; null where there is no `/proc`. */
export function countOwnProcesses(): number | null {
  const uid = process.getuid?.();
  const pids = listPids();
  return pids.length === 0 ? null : pids.filter((pid) => readOwner(pid) === uid).length;
}

function readOwner(pid: number): number | null {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? null;
}
