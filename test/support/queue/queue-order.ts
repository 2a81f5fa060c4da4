import { readRetry } from '../../../src/queue/settle/own-retry.ts';
import type { ActivityEvent } from '../../../src/store/words.ts';
import type { LogContent } from '../faults/invariants-log.ts';
import type { LoggedJob } from '../log/log-tables.ts';

/** A job that waits, at a moment of the log. */
interface Waiting {
  readonly id: number;
  readonly priority: number;
  readonly runAt: number;
}

const putsBack: readonly ActivityEvent[] = ['job-queued', 'job-retrying'];

/**
 * Goes through all that was told of in the order of its transactions: whenever a job began, it was the first one
 * of those that were due, by priority, then due time, then number. For jobs that were added to be run at once,
 * and whose handler has one retry delay.
 *
 * @param ahead how many others may have claimed ahead and not begun: as many may stand before a job that begins
 * @returns which jobs began out of their turn
 */
export function findOutOfTurn({ jobs, activity }: LogContent, ahead = 0): string[] {
  const rows = new Map(jobs.map((job) => [job.id, job]));
  const waiting: Waiting[] = [];
  return activity.flatMap(({ event, job_id, at }) => {
    const job = rows.get(job_id ?? 0);
    if (job === undefined) return [];
    if (putsBack.includes(event)) insert(waiting, toWaiting(job, event, at));
    if (event !== 'run-started') return [];
    const index = waiting.findIndex(({ id }) => id === job.id);
    const before = waiting.slice(0, Math.max(index, 0)).filter(({ runAt }) => runAt <= at);
    if (index >= 0) waiting.splice(index, 1);
    return index >= 0 && before.length <= ahead
      ? []
      : [`job ${job.id} began before job ${before[0]?.id}, the first of ${before.length}`];
  });
}

function toWaiting(job: LoggedJob, event: ActivityEvent, at: number): Waiting {
  const runAt = event === 'job-retrying' ? at + retryDelayMs(job) : job.created_at;
  return { id: job.id, priority: job.priority, runAt };
}

/** Mostly what is put in is the last one, or nearly the first. */
function insert(waiting: Waiting[], job: Waiting): void {
  let [from, to] = [0, waiting.length];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    if (compareTurns(waiting[middle] as Waiting, job) < 0) from = middle + 1;
    else to = middle;
  }
  waiting.splice(from, 0, job);
}

function compareTurns(one: Waiting, other: Waiting): number {
  return other.priority - one.priority || one.runAt - other.runAt || one.id - other.id;
}

function retryDelayMs({ retry }: LoggedJob): number {
  return retry === null ? 0 : (readRetry(retry).delay?.firstMs ?? 0);
}
