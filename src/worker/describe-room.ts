import formatBytes from 'bytes';
import type { Limits } from '../config/settings.ts';
import type { Machine } from './machine-state.ts';

/** Why the machine has no room for another script; null: it has, as far as is known. */
export function describeLack(limits: Limits, machine: Machine): string | null {
  const { maxLoad, minFreeMemoryBytes, maxProcesses } = limits;
  const { load, freeMemoryBytes, processes } = machine;
  if (isAbove(load, maxLoad)) return `the load average is ${load?.toFixed(1)} (maxLoad ${maxLoad})`;
  if (isAbove(minFreeMemoryBytes, freeMemoryBytes)) {
    return `only ${size(freeMemoryBytes)} of memory are free (minFreeMemory ${size(minFreeMemoryBytes)})`;
  }
  if (isAbove(processes, maxProcesses)) {
    return `${processes} processes run (maxProcesses ${maxProcesses})`;
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
