import { admitWithinBudget, type UsualDuration } from './budget.ts';
import type { Admission, Call } from './pass.ts';
import { waitForRoom } from './wait-for-room.ts';

/** What the call's budget and the settings' limits ask for; the first that speaks against it has the say. */
export function createAdmission(call: Call, usualDurationMs: UsualDuration): Admission {
  const { budget, stop, runner, events } = call;
  const note = (sentence: string) => events.emit('warning', sentence);
  const admitByBudget = budget === null ? null : admitWithinBudget(budget, usualDurationMs);
  return async (script) =>
    (await admitByBudget?.(script)) ??
    (await waitForRoom(runner.settings.limits, stop.signal, { note }));
}
