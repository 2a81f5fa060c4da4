import type { WaitingJob } from '../status.ts';
import type { Screen } from './screen.ts';

/** `next try 11-03 14:10, 2 of 4`; `deferred, waits since 11-03 14:02`. */
export function describeWait(job: WaitingJob, { clock, nowMs }: Pick<Screen, 'clock' | 'nowMs'>) {
  if (job.state === 'queued') return ['next in line'];
  if (job.state === 'deferred') return [`deferred, waits since ${clock.short(job.sinceMs)}`];
  const when = job.runAtMs <= nowMs ? 'due with the next call' : clock.short(job.runAtMs);
  return [`next try ${when}, ${job.attempts + 1} of ${job.maxAttempts}`];
}
