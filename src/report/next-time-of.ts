import { defaultSettings } from '../config/settings.ts';
import type { Job } from '../queue/queue.ts';
import { parseRepeat } from '../queue/repeat/parse-repeat.ts';
import { planNext } from '../queue/repeat/plan-next.ts';

/**
 * When a repeating job is to run after a run at this time, were that to take no time; null: it does not
 * repeat, or its rule gives no further time.
 */
export async function nextTimeOf({ repeat, missed }: Job, atMs: number): Promise<number | null> {
  const parsed = repeat === null ? null : parseRepeat(repeat);
  if (parsed === null || 'problem' in parsed) return null;
  const moments = { scheduled: atMs, started: atMs, finished: atMs };
  const { missedCap: cap } = defaultSettings.queue;
  const plan = await planNext(parsed.rule, moments, { missed, nowMs: atMs, cap });
  return plan?.runAt ?? null;
}
