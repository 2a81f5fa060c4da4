import { statSync } from 'node:fs';
import type { StateFolder } from '../../system/place/state-folder.ts';

/** The variables that name the server: by its address, or by the path of a file that holds it. */
export const databaseVariables = ['RUNNER_DATABASE_URL', 'RUNNER_DATABASE_URL_FILE'] as const;

/** True: the log is on a database server, and no part of it in a file here. The server's address is read later. */
export function isOnServer(env: NodeJS.ProcessEnv = process.env): boolean {
  return databaseVariables.some((name) => env[name]?.trim());
}

/** False where nothing was ever recorded; of a server that is known once it is asked. */
export function hasLog(state: StateFolder): boolean {
  return logIdentity(state) !== null;
}

/** Changes once another log is in its place; null where there is none. */
export function logIdentity({ database, env }: StateFolder): string | null {
  if (isOnServer(env)) return 'server';
  const stats = statSync(database, { throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.dev}:${stats.ino}`;
}
