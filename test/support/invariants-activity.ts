import type { ActivityEvent } from '../../src/store/schema.ts';
import type { LogContent } from './invariants-log.ts';
import type { LoggedJob } from './log-tables.ts';

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

/** Of runs that were recorded without the log only the end is told, if their jobs are known at all. */
const lastLetterAlone: Readonly<Record<string, string>> = {
  retrying: 't',
  finished: 'F',
  failed: 'X',
  cancelled: 'C',
};

const lifeOfWorker: Readonly<Record<string, string>> = {
  running: 'worker-started',
  finished: 'worker-started worker-finished',
  crashed: 'worker-started worker-crashed',
};

/** Each transition is told once, in an order that can be, and up to the state that the row has. */
export function checkActivity(log: LogContent): string[] {
  const ofScripts = log.jobs.filter(({ tier }) => tier !== null);
  return [...ofScripts.flatMap((job) => checkJobLife(job, log)), ...checkWorkerLives(log)];
}

function checkJobLife(job: LoggedJob, { activity, runs }: LogContent): string[] {
  const life = activity
    .filter(({ job_id }) => job_id === job.id)
    .map(({ event }) => letters[event] ?? '?')
    .join('');
  const own = runs.filter(({ job_id }) => job_id === job.id);
  const told = own.filter(({ spool_id }) => spool_id === null).length;
  const isRight =
    told === own.length
      ? lifeOfJob.test(life) && lastLetter[job.state]?.test(life) === true
      : life === '' || life.endsWith(lastLetterAlone[job.state] ?? '?');
  const isCounted = life.split('r').length - 1 === told;
  return isRight && isCounted
    ? []
    : [`job ${job.id} (${job.name}, ${job.state}, ${own.length} runs): told as ${life}`];
}

function checkWorkerLives({ workers, activity, runs }: LogContent): string[] {
  return workers.flatMap(({ id, tier, state, reason }) => {
    const own = runs.filter(({ worker_id }) => worker_id === id);
    const isSpooled = own.some(({ spool_id }) => spool_id !== null);
    if (isSpooled || reason?.includes('it ran without the log')) return [];
    const life = activity
      .filter(({ event, worker_id }) => worker_id === id && event.startsWith('worker-'))
      .map(({ event }) => event)
      .join(' ');
    const isRight =
      state === 'skipped'
        ? /^(worker-started )?worker-skipped$/.test(life)
        : life === lifeOfWorker[state];
    return isRight ? [] : [`worker ${id} (${tier}, ${state}): told as ${life}`];
  });
}
