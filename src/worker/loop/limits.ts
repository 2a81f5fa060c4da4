import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../../settings/settings.ts';
import type { Admission, Invocation } from '../invocation/invocation.ts';
import { admitWithinBudget, type UsualDuration } from './budget.ts';
import type { Machine } from './machine.ts';

/**
 * What the call's budget and the settings' limits ask for; the first that speaks against it has the say. Null:
 * they ask for nothing.
 */
export function createAdmission(
  call: Invocation,
  usualDurationMs: UsualDuration,
): Admission | null {
  const { budget, stop, runner, events } = call;
  if (budget === null && !hasLimit(runner.settings.limits)) return null;
  const note = (sentence: string) => events.emit('warning', sentence);
  const admitByBudget = budget === null ? null : admitWithinBudget(budget, usualDurationMs);
  return async (script) =>
    (await admitByBudget?.(script)) ??
    (await waitForRoom(runner.settings.limits, stop.signal, { note }));
}

const POLL_MS = 1_000;

/** One script after the other asks; what cannot be watched is said once. */
const noted = new WeakSet<Limits>();

interface Waiting {
  /** Is told, once, of limits that cannot be watched here. */
  readonly note?: (sentence: string) => void;
  readonly pollMs?: number;
  /** How much time there is at most, whatever the limits say. */
  readonly leftMs?: number;
  /** What the machine has; tests have their own. */
  readonly read?: () => Machine;
}

/**
 * Waits until the machine has the room that the limits ask for, `maxWaitMs` at most.
 *
 * @returns null when there is room, or the wait was stopped; else why the rest is to be left to the
 *   next pass
 */
export async function waitForRoom(
  limits: Limits,
  stop: AbortSignal,
  waiting: Waiting = {},
): Promise<string | null> {
  if (!hasLimit(limits)) return null;
  // Without a limit, nothing of this is loaded.
  const [{ readMachine }, { describeLack, describeUnknown }] = await Promise.all([
    import('./machine.ts'),
    import('./machine.ts'),
  ]);
  const read = waiting.read ?? (() => readMachine(wantedBy(limits)));
  const deadline =
    performance.now() + Math.min(limits.maxWaitMs, waiting.leftMs ?? Number.POSITIVE_INFINITY);
  const first = read();
  const unknown = noted.has(limits) ? null : describeUnknown(limits, first);
  if (unknown !== null) waiting.note?.(unknown);
  noted.add(limits);
  let reason = describeLack(limits, first);
  while (reason !== null && !stop.aborted && performance.now() < deadline) {
    const leftMs = Math.max(deadline - performance.now(), 0);
    const delayMs = Math.min(waiting.pollMs ?? POLL_MS, leftMs);
    await sleep(delayMs, undefined, { signal: stop }).catch(() => {});
    reason = describeLack(limits, read());
  }
  return stop.aborted ? null : reason;
}

function hasLimit({ maxLoad, minFreeMemoryBytes, maxProcesses }: Limits): boolean {
  return maxLoad !== null || minFreeMemoryBytes !== null || maxProcesses !== null;
}

function wantedBy(limits: Limits): Record<keyof Machine, boolean> {
  return {
    load: limits.maxLoad !== null,
    freeMemoryBytes: limits.minFreeMemoryBytes !== null,
    processes: limits.maxProcesses !== null,
  };
}
