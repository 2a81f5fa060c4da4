import type { LoggedRun, LoggedWorker } from '../log/log-tables.ts';
import type { LogContent } from './invariants-log.ts';

const lifeOfWorker: Readonly<Record<string, string>> = {
  running: 'worker-started',
  skipped: 'worker-skipped',
  finished: 'worker-started worker-finished',
  crashed: 'worker-started worker-crashed',
};

/** Each transition is told once, and up to the state that the row has; in which order is a matter of instants. */
export function checkActivity(log: LogContent): string[] {
  return [
    ...log.workers.flatMap((worker) => checkWorkerLife(worker, log)),
    ...log.runs.flatMap((run) => checkRunLife(run, log)),
  ];
}

function checkWorkerLife({ id, tier, state }: LoggedWorker, { activity }: LogContent): string[] {
  const life = activity
    .filter(({ event, worker_id }) => worker_id === id && event.startsWith('worker-'))
    .map(({ event }) => event)
    .toSorted()
    .reverse()
    .join(' ');
  return life === lifeOfWorker[state] ? [] : [`worker ${id} (${tier}, ${state}): told as ${life}`];
}

function checkRunLife({ id, outcome, left_job }: LoggedRun, { activity }: LogContent): string[] {
  const life = activity.filter(({ run_id }) => run_id === id).map(({ event }) => event);
  const isReleased = outcome === 'released' && left_job !== 'cancelled';
  const end = isReleased ? 'job-released' : `job-${left_job ?? 'finished'}`;
  const expected = outcome === 'running' ? ['run-started'] : ['run-started', end];
  return life.toSorted().join() === expected.toSorted().join() ? [] : [`run ${id} (${outcome}): told as ${life}`];
}
