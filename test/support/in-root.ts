import { type Ended, runCommand } from './run-command.ts';
import { cronEnv } from './run-pass.ts';

/** The built command in a root, in cron's environment, with times in UTC. */
export function inRoot(root: string, ...args: readonly string[]): Ended {
  const env = { ...cronEnv(root), TZ: 'UTC', COLUMNS: '110' };
  return runCommand(args, { cwd: root, env });
}
