import { execFileSync } from 'node:child_process';

/** Tests drive the built command, as a user's crontab does, so it is built first. */
export function setup(): void {
  execFileSync('node_modules/.bin/tsdown', { stdio: ['ignore', 'ignore', 'inherit'] });
}
