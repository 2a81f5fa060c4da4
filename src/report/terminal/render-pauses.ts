import type { Pause } from '../../queue/pauses.ts';
import { nameOfPaused, resumeCommand } from '../pause-text.ts';
import type { Screen } from './screen.ts';
import { entry } from './status-entry.ts';

/** What is paused, and what ends that; nothing where nothing is. */
export function renderPauses(pauses: readonly Pause[], screen: Screen): string[] {
  if (pauses.length === 0) return [];
  const { palette } = screen;
  const lines = pauses.flatMap((pause) =>
    entry(describePause(pause, screen), screen, palette.warning),
  );
  return [palette.bold('paused'), ...lines];
}

/** `mail/*`, `fails when it is due`, `until 11-03 16:00`, `` `runner resume 'mail/*'` ends it ``. */
export function describePause(pause: Pause, { clock }: Pick<Screen, 'clock'>): string[] {
  const until = pause.until === null ? 'until resumed' : `until ${clock.short(pause.until)}`;
  const fuse = pause.kind === 'fuse' ? ['fails when it is due'] : [];
  return [nameOfPaused(pause), ...fuse, until, `\`${resumeCommand(pause)}\` ends it`];
}
