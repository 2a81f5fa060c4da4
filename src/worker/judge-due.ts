import type { CatchUp } from '../config/settings.ts';
import { type LastPass, PASS_TRIES } from '../queue/last-pass.ts';

/** What is known of a tier when somebody asks whether it is due. */
export interface DueFacts {
  /** When the period began that holds this instant. */
  readonly start: number;
  readonly at: number;
  readonly last: LastPass | null;
  /** How many passes for this period have died. */
  readonly crashes: number;
  readonly catchUp: CatchUp;
}

/** `missed`: it would be due, but is too late to be made up for. */
export type DueVerdict = 'due' | 'not-due' | 'missed';

/** A tier that isn't to be caught up runs at its time, give or take what calls once an hour allow. */
const LATE_MS = 3_600_000;

/** A clock that is corrected by a moment has not been set back. */
const CORRECTION_MS = 60_000;

/**
 * A tier is due once a new period has begun since its last pass began; however many were missed, that
 * is one pass. Pure: instants are epoch milliseconds.
 */
export function judgeDue({ start, at, last, crashes, catchUp }: DueFacts): DueVerdict {
  if (last === null || last.startedAt > at + CORRECTION_MS) return 'due';
  if (last.state === 'running') return 'not-due';
  if (last.startedAt >= start) {
    return last.state === 'crashed' && crashes < PASS_TRIES ? 'due' : 'not-due';
  }
  return catchUp === 'skip' && at - start > LATE_MS ? 'missed' : 'due';
}
