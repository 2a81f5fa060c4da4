import { type RawBuilder, sql } from 'kysely';
import type { JobState } from '../../store/schema.ts';

/** Every state, in the order of a job's life. */
export const jobStates = [
  'queued',
  'running',
  'retrying',
  'paused',
  'failed',
  'finished',
  'cancelled',
] as const satisfies readonly JobState[];

/** To be taken, now or once it is due. */
export const waitingStates = ['queued', 'retrying'] as const satisfies readonly JobState[];

/** It comes to no further run by itself. */
export const endedStates = [
  'finished',
  'failed',
  'cancelled',
] as const satisfies readonly JobState[];

export const isWaiting = (state: JobState): boolean => isOneOf(waitingStates, state);
export const isEnded = (state: JobState): boolean => isOneOf(endedStates, state);

function isOneOf(states: readonly JobState[], state: JobState): boolean {
  return states.includes(state);
}

/**
 * Written out, not bound: only so the partial indexes of what waits answer it. It holds for jobs of the
 * queue alone.
 */
export const isWaitingJob: RawBuilder<boolean> = sql<boolean>`(jobs.tier is null and jobs.state in ('queued', 'retrying'))`;

/** The same of what has failed. */
export const isFailedJob: RawBuilder<boolean> = sql<boolean>`(jobs.tier is null and jobs.state = 'failed' and jobs.finished_at is not null)`;
