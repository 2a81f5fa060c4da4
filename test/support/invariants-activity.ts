import type { ActivityEvent, JobRow } from '../../src/store/schema.ts';
import type { LogContent } from './invariants-log.ts';

/** One letter for each transition, so that a job's life is a word that an expression describes. */
const letters: Partial<Record<ActivityEvent, string>> = {
  'job-queued': 'q',
  'job-deferred': 'd',
  'job-left-running': 'l',
  'job-running': 'r',
  'job-retrying': 't',
  'job-finished': 'F',
  'job-failed': 'X',
  'job-cancelled': 'C',
};

/** Queued; then run, and retried; then ended, once. */
const lifeOfJob = /^q(d*rl*t)*d*(rl*)?[FXC]?$/;

const lastLetter: Readonly<Record<string, RegExp>> = {
  queued: /[qd]$/,
  running: /[rl]$/,
  retrying: /[td]$/,
  finished: /rl*F$/,
  failed: /rl*X$/,
  cancelled: /C$/,
};

const lifeOfWorker: Readonly<Record<string, string>> = {
  running: 'worker-started',
  finished: 'worker-started worker-finished',
  crashed: 'worker-started worker-crashed',
};

/** Each transition is told once, in an order that can be, and up to the state that the row has. */
export function checkActivity(log: LogContent): string[] {
  return [...log.jobs.flatMap((job) => checkJobLife(job, log)), ...checkWorkerLives(log)];
}

function checkJobLife(job: JobRow, { activity, runs }: LogContent): string[] {
  const life = activity
    .filter(({ job_id }) => job_id === job.id)
    .map(({ event }) => letters[event] ?? '?')
    .join('');
  const count = runs.filter(({ job_id }) => job_id === job.id).length;
  const told = life.split('r').length - 1;
  const isRight = lifeOfJob.test(life) && lastLetter[job.state]?.test(life) && told === count;
  return isRight ? [] : [`job ${job.id} (${job.name}, ${job.state}, ${count} runs): told as ${life}`];
}

function checkWorkerLives({ workers, activity }: LogContent): string[] {
  return workers.flatMap(({ id, tier, state }) => {
    const life = activity
      .filter(({ event, worker_id }) => worker_id === id && event.startsWith('worker-'))
      .map(({ event }) => event)
      .join(' ');
    const isRight =
      state === 'skipped' ? /^(worker-started )?worker-skipped$/.test(life) : life === lifeOfWorker[state];
    return isRight ? [] : [`worker ${id} (${tier}, ${state}): told as ${life}`];
  });
}
