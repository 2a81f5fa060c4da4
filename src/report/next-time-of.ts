import type { Job } from '../queue/queue.ts';
import { nextTime } from '../queue/repeat/next-time.ts';
import { parseRepeat } from '../queue/repeat/parse-repeat.ts';

/**
 * When a repeating job is to run after a run at this time, were that to take no time; null: it does not
 * repeat, or its rule gives no further time.
 */
export async function nextTimeOf(job: Job, atMs: number): Promise<number | null> {
  if (job.repeat === null) return null;
  const parsed = parseRepeat(job.repeat);
  if ('problem' in parsed) return null;
  return await nextTime(parsed.rule, { scheduled: atMs, started: atMs, finished: atMs });
}
