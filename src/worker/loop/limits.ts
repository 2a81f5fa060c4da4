import { existsSync, statSync } from 'node:fs';
import { loadavg } from 'node:os';
import formatBytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';
import type { Script } from '../../discovery/script.ts';
import type { Limits } from '../../settings/settings.ts';
import { sleepUntil } from '../../system/base/clock.ts';
import { readFreeMemory } from '../../system/process/memory.ts';
import { listPids } from '../../system/process/tree.ts';
import type { Admission, Budget, Invocation } from '../invocation/invocation.ts';

/** The machine's values that limits apply to; null if unknown. */
export interface MachineLoad {
  readonly load: number | null;
  readonly freeMemoryBytes: number | null;
  readonly processes: number | null;
}

/** Reads only the wanted values. */
function readMachine(wanted: Readonly<Record<keyof MachineLoad, boolean>>): MachineLoad {
  return {
    load: wanted.load ? readLoad() : null,
    freeMemoryBytes: wanted.freeMemoryBytes ? readFreeMemory() : null,
    processes: wanted.processes ? countOwnProcesses() : null,
  };
}

/** The load of the last minute. Without `/proc` Node reports 0, or a value that a container may not see. */
function readLoad(): number | null {
  return existsSync('/proc/loadavg') ? (loadavg()[0] ?? null) : null;
}

/** Why the machine has no room for another script; null: it has, as far as is known. */
function describeLack(limits: Limits, machine: MachineLoad): string | null {
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

/** Whether at most half of what the limits allow is in use: room for a process that is not indispensable. */
export function hasRoomToSpareOf(limits: Limits): boolean {
  const { minFreeMemoryBytes, maxProcesses } = limits;
  const halved = {
    ...limits,
    maxLoad: null,
    minFreeMemoryBytes: minFreeMemoryBytes && minFreeMemoryBytes * 2,
    maxProcesses: maxProcesses && maxProcesses / 2,
  };
  return describeLack(halved, readMachine(wantedBy(halved))) === null;
}

/** One sentence about limits that cannot be watched here; null: none. */
function describeUnknown(limits: Limits, machine: MachineLoad): string | null {
  const unknown = [
    limits.maxLoad !== null && machine.load === null ? 'maxLoad' : null,
    limits.minFreeMemoryBytes !== null && machine.freeMemoryBytes === null ? 'minFreeMemory' : null,
    limits.maxProcesses !== null && machine.processes === null ? 'maxProcesses' : null,
  ].filter((each) => each !== null);
  if (unknown.length === 0) return null;
  return `${unknown.join(' and ')} cannot be watched here: there is no /proc`;
}

/** An unknown value, or no limit, never blocks. */
function isAbove(one: number | null, other: number | null): boolean {
  return one !== null && other !== null && one > other;
}

const size = (bytes: number | null): string =>
  formatBytes(bytes ?? 0, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;

/** How many processes this user has, including the runner's own; null without `/proc`. */
export function countOwnProcesses(): number | null {
  const uid = process.getuid?.();
  const pids = listPids();
  return pids.length === 0 ? null : pids.filter((pid) => readOwner(pid) === uid).length;
}

/** Null if the process has ended, or may not be read. */
function readOwner(pid: number): number | null {
  try {
    return statSync(`/proc/${pid}`).uid;
  } catch {
    return null;
  }
}

/** Null: the duration of the script is unknown. */
type UsualDuration = (script: Script) => Promise<number | null>;

/**
 * Starts no script that usually takes longer than the time left. The first script starts however long it takes and
 * however late the host is: otherwise it would never run.
 *
 * @returns a function to call before a script starts: null, or why it must not start now
 */
function admitWithinBudget(budget: Budget, usualDurationMs: UsualDuration): (script: Script) => Promise<string | null> {
  const { budgetMs, startedAt } = budget;
  return async (script) => {
    if (!budget.isBegun) {
      budget.isBegun = true;
      return null;
    }
    const leftMs = Math.round(startedAt + budgetMs - performance.now());
    if (leftMs <= 0) return `the budget of ${duration(budgetMs)} is used up`;
    const usualMs = await usualDurationMs(script);
    if (usualMs === null || usualMs <= leftMs) return null;
    return `${script.name} usually takes ${duration(Math.round(usualMs))}, and only ${duration(leftMs)} of the budget of ${duration(budgetMs)} is left`;
  };
}

const duration = (ms: number): string => prettyMilliseconds(ms);

/** Whether anything can prevent a script of the call from starting now. */
export function isLimited({ budget, runner }: Invocation): boolean {
  return budget !== null || hasLimit(runner.settings.limits);
}

/** Combines the call's budget with the limits of the settings; the first refusal counts. Null: there are no limits. */
export function createAdmission(call: Invocation, usualDurationMs: UsualDuration): Admission | null {
  const { budget, stop, runner, events } = call;
  if (!isLimited(call)) return null;
  const note = (sentence: string) => events.emit('warning', sentence);
  const admitByBudget = budget === null ? null : admitWithinBudget(budget, usualDurationMs);
  return async (script) =>
    (await admitByBudget?.(script)) ?? (await waitForRoom(runner.settings.limits, stop.signal, { note }));
}

const POLL_MS = 1_000;

/** Scripts ask one after the other; a limit that cannot be watched is reported once. */
const noted = new WeakSet<Limits>();

interface Waiting {
  /** Called once about limits that cannot be watched here. */
  readonly note?: (sentence: string) => void;
  readonly pollMs?: number;
  /** Longest wait in milliseconds, whatever the limits say. */
  readonly leftMs?: number;
  /** Reads the machine's values; tests replace it. */
  readonly read?: () => MachineLoad;
}

/**
 * Waits until the machine has the room that the limits require, for at most `maxWaitMs`.
 *
 * @returns null if there is room, or the wait was stopped; otherwise why the rest is left to the next pass
 */
export async function waitForRoom(limits: Limits, stop: AbortSignal, waiting: Waiting = {}): Promise<string | null> {
  if (!hasLimit(limits)) return null;
  const read = waiting.read ?? (() => readMachine(wantedBy(limits)));
  const deadline = performance.now() + Math.min(limits.maxWaitMs, waiting.leftMs ?? Number.POSITIVE_INFINITY);
  const first = read();
  const unknown = noted.has(limits) ? null : describeUnknown(limits, first);
  if (unknown !== null) waiting.note?.(unknown);
  noted.add(limits);
  let reason = describeLack(limits, first);
  while (reason !== null && !stop.aborted && performance.now() < deadline) {
    const leftMs = Math.max(deadline - performance.now(), 0);
    const delayMs = Math.min(waiting.pollMs ?? POLL_MS, leftMs);
    await sleepUntil(stop, delayMs);
    reason = describeLack(limits, read());
  }
  return stop.aborted ? null : reason;
}

function hasLimit({ maxLoad, minFreeMemoryBytes, maxProcesses }: Limits): boolean {
  return maxLoad !== null || minFreeMemoryBytes !== null || maxProcesses !== null;
}

function wantedBy(limits: Limits): Record<keyof MachineLoad, boolean> {
  return {
    load: limits.maxLoad !== null,
    freeMemoryBytes: limits.minFreeMemoryBytes !== null,
    processes: limits.maxProcesses !== null,
  };
}
