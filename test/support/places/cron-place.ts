import { type Ended, type Place, runCommand } from '../calls/run-command.ts';

/** What cron gives a job: a bare environment and, as current folder, anything but the root. */
export function cronPlace(root: string): Place {
  return { cwd: '/', env: { HOME: root, PATH: '/usr/bin:/bin', SHELL: '/bin/sh' } };
}

/** The built command for this root, as cron runs it. */
export function runner(root: string, ...args: readonly string[]): Ended {
  return runCommand([...args, '--root', root], cronPlace(root));
}
