import type { Script } from '../discovery/script.ts';
import { admitWithinBudget, type UsualDuration } from './budget.ts';
import type { Call } from './pass.ts';
import { waitForRoom } from './wait-for-room.ts';

/**
 * Asked before a script is started: null, or why it is to be left to the next pass. It may take its
 * time, and wait for room.
 */
export type Admission = (script: Script) => Promise<string | null>;

/** What the call's budget and the settings' limits ask for; the first that speaks against it has the say. */
export function createAdmission(call: Call, usualDurationMs: UsualDuration): Admission {
  const { budget, stop, runner, events } = call;
  const note = (sentence: string) => events.emit('warning', sentence);
  const admitByBudget = budget === null ? null : admitWithinBudget(budget, usualDurationMs);
  return async (script) =>
    (await admitByBudget?.(script)) ??
    (await waitForRoom(runner.settings.limits, stop.signal, { note }));
}
