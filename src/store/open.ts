import { dirname } from 'node:path';
import type { LogClock } from '../system/base/clock.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import type { DatabaseTarget } from './server/connect/url.ts';
import { isOnServer } from './shared/which-log.ts';
import type { Store } from './store.ts';

interface OpenOptions {
  /** UTC epoch milliseconds; default: the machine's clock. */
  readonly now?: () => number;
  /** Follows that of the server, where the log is on one. Default: this command's. */
  readonly clock?: LogClock;
}

/**
 * Opens the activity log for a pass, at the newest schema: the file in the state folder, or the database that the
 * environment names. It is made when it is missing.
 *
 * @throws {StoreUnavailable} when there can be none
 * @throws {UsageError} when the database's address is none
 */
export async function openStore(state: StateFolder, { now, clock }: OpenOptions = {}): Promise<Store> {
  const target = await findTarget(state);
  if (target === null) return await (await import('./sqlite/open.ts')).openSqliteStore(state, now && { now });
  return await (await import('./server/open.ts')).openServerStore(target, clock);
}

/**
 * Opens the activity log for a command that reads: null where nothing has ever run.
 *
 * @throws {StoreUnavailable} when it cannot be read
 * @throws {UsageError} when the database's address is none
 */
export async function openExistingStore(state: StateFolder): Promise<Store | null> {
  const target = await findTarget(state);
  if (target === null) return await (await import('./sqlite/open.ts')).openExistingSqliteStore(state);
  return await (await import('./server/open.ts')).openExistingServerStore(target);
}

async function findTarget({ path, env }: StateFolder): Promise<DatabaseTarget | null> {
  if (!isOnServer(env)) return null;
  return (await import('./server/connect/url.ts')).readDatabaseUrl(dirname(path ?? '.'), env);
}
