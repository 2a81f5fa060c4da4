import type { Place } from './run-command.ts';

/** What cron gives a job: a bare environment and, as current folder, anything but the root. */
export function cronPlace(root: string): Place {
  return { cwd: '/', env: { HOME: root, PATH: '/usr/bin:/bin', SHELL: '/bin/sh' } };
}
