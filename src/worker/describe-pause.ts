import { resumeCommandOf, wordsOfPaused } from '../queue/pause-names.ts';
import type { Pause } from '../queue/pauses.ts';

/** "hourly is paused until 2026-11-01T10:00:00.000Z" */
export function describePause({ name, until }: Pause): string {
  const end =
    until === null
      ? `until \`${resumeCommandOf(name)}\``
      : `until ${new Date(until).toISOString()}`;
  return `${wordsOfPaused(name)} is paused ${end}`;
}
