import { resumeCommandOf, wordsOfPaused } from '../queue/pause-names.ts';
import type { Pause } from '../queue/pauses.ts';
import type { Clock } from './clock.ts';
import { printableLine } from './printable.ts';

/** `paused until 11-03 16:00`, `paused`; of what is paused as part of more: `daily is paused`. */
export function describePaused(pause: Pause, of: string, clock: Clock): string {
  const until = pause.until === null ? '' : ` until ${clock.short(pause.until)}`;
  return pause.name === of ? `paused${until}` : `${nameOfPaused(pause)} is paused${until}`;
}

/** `everything`, `daily`, `hourly/clean-tmp`, `the queue`, `mail/*`. */
export function nameOfPaused({ name }: Pick<Pause, 'name'>): string {
  return printableLine(wordsOfPaused(name));
}

/** The command that ends a pause. */
export function resumeCommand({ name }: Pick<Pause, 'name'>): string {
  return printableLine(resumeCommandOf(name));
}
