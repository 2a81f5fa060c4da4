import { defaultSettings } from '../config/settings.ts';
import type { Job } from '../queue/queue.ts';
import { parseRepeat } from '../queue/repeat/parse-repeat.ts';
import { type PlannedTime, planNext } from '../queue/repeat/plan-next.ts';
import type { Moments } from '../queue/repeat/repeat-rule.ts';

/**
 * When, and for which time, a repeating job is to run after a run with these moments; null: it does not
 * repeat, or its rule gives no further time.
 */
export async function nextTimeOf(
  { repeat, missed }: Job,
  moments: Moments & { readonly finished: number },
): Promise<PlannedTime | null> {
  const parsed = repeat === null ? null : parseRepeat(repeat);
  if (parsed === null || 'problem' in parsed) return null;
  const { missedCap: cap } = defaultSettings.queue;
  return await planNext(parsed.rule, moments, { missed, nowMs: moments.finished, cap });
}
