import type { Pause } from '../../queue/pauses.ts';
import type { Job } from '../../queue/queue.ts';
import type { JobState } from '../../store/schema.ts';
import { formatCount } from '../format.ts';
import type { Palette } from './palette.ts';
import type { Screen } from './screen.ts';

/** When a job is due, or has begun, or has ended, as its state asks for. */
export function describeJobTime(
  job: Job,
  hold: Pause | null,
  { clock, nowMs }: Pick<Screen, 'clock' | 'nowMs'>,
): string {
  const short = (date: Date | null): string => (date === null ? '' : clock.short(date.getTime()));
  if (job.state === 'running') return `since ${short(job.startedAt)}`;
  if (job.state === 'paused') return 'waits for its family';
  if (job.finishedAt !== null) return short(job.finishedAt);
  const due = job.runAt.getTime() <= nowMs ? 'due now' : `due ${short(job.runAt)}`;
  if (hold === null) return due;
  return hold.kind === 'fuse' ? `${due}, will fail` : `${due}, paused`;
}

/** `1 of 4`; without the number of tries that only its handler knows: `1`. */
export function describeTries({ attempts, maxAttempts }: Job): string {
  const made = formatCount(attempts);
  return maxAttempts === null ? made : `${made} of ${formatCount(maxAttempts)}`;
}

export function paintState(palette: Palette, state: JobState): (text: string) => string {
  return {
    queued: same,
    running: palette.live,
    retrying: palette.warning,
    paused: palette.warning,
    finished: palette.good,
    failed: palette.bad,
    cancelled: palette.dim,
  }[state];
}

const same = (text: string): string => text;
