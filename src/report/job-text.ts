import type { Job } from '../queue/queue.ts';
import type { Clock } from './clock.ts';
import { firstLine, printableLine } from './printable.ts';

/** `Job 12 (mail/welcome)`. */
function nameOfJob({ id, name }: Pick<Job, 'id' | 'name'>): string {
  return `Job ${id} (${printableLine(name)})`;
}

/** `Added job 12 (mail/welcome), due now.` */
export function describeAdded(job: Job, clock: Clock, nowMs: number): string {
  return `Added job ${job.id} (${printableLine(job.name)}), ${describeDue(job, clock, nowMs)}.`;
}

/** `due now`, `due 2026-12-24 18:00:00 (Europe/Berlin)`; of a child whose parent runs, what it waits for. */
function describeDue(job: Job, clock: Clock, nowMs: number): string {
  if (job.state === 'paused') return `waits until job ${job.parent} has ended its own run`;
  const runAtMs = job.runAt.getTime();
  return runAtMs <= nowMs ? 'due now' : `due ${clock.dateTime(runAtMs)} (${clock.zone})`;
}

const changes: Readonly<Record<string, string>> = {
  keep: 'nothing was changed',
  replace: 'its data was replaced',
  merge: 'the data was merged into its own',
};

/** Of a job that had the unique key already. */
export function describeKept(job: Job, policy: string): string {
  const change = job.state === 'running' && policy !== 'keep' ? 'running' : policy;
  const what = changes[change] ?? 'it runs, so that its data was not changed';
  return `${nameOfJob(job)} has that unique key already; ${what}.`;
}

/** `Job 12 (mail/welcome) is queued, due now.` */
export function describeJob(job: Job, clock: Clock, nowMs: number): string {
  return `${nameOfJob(job)} ${describeState(job, clock, nowMs)}.`;
}

function describeState(job: Job, clock: Clock, nowMs: number): string {
  const { state, reason, leasedUntil } = job;
  if (state === 'queued' || state === 'retrying')
    return `is ${state}, ${describeDue(job, clock, nowMs)}`;
  if (state === 'running' && leasedUntil !== null) {
    return `is running; its claim holds until ${clock.dateTime(leasedUntil.getTime())} (${clock.zone})`;
  }
  if (state === 'paused') return 'is paused until its family goes on';
  return state === 'failed' && reason !== null ? `is failed: ${firstLine(reason)}` : `is ${state}`;
}
