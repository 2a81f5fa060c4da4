import { isWaiting } from '../queue/job-states.ts';
import { WHOLE_QUEUE } from '../queue/pause-names.ts';
import { findPause, type Pause } from '../queue/pauses.ts';
import type { Job } from '../queue/queue.ts';

/**
 * What keeps a job of the queue that waits from being run: a pause, else a fuse, as what is paused does
 * not fail; null: nothing does.
 */
export function findHold(pauses: readonly Pause[], job: Pick<Job, 'name' | 'state'>): Pause | null {
  if (!isWaiting(job.state)) return null;
  const name = `${WHOLE_QUEUE}/${job.name}`;
  const isFuse = ({ kind }: Pause): boolean => kind === 'fuse';
  const paused = pauses.filter((pause) => !isFuse(pause));
  return findPause(paused, name) ?? findPause(pauses.filter(isFuse), name);
}
