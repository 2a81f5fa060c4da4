import { dirname } from 'node:path';
import { followClock } from '../system/base/clock.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import type { Store } from './contract/store.ts';
import type { DatabaseTarget } from './server/connect/url.ts';
import { isOnServer } from './which-log.ts';

interface OpenOptions {
  /** UTC epoch milliseconds; default: the machine's clock. */
  readonly now?: () => number;
}

/**
 * Opens the activity log for a pass, at the newest schema: the file in the state folder, or the database that the
 * environment names. It is made when it is missing.
 *
 * @throws {StoreUnavailable} when there can be none
 * @throws {UsageError} when the database's address is none
 */
export async function openStore(state: StateFolder, options: OpenOptions = {}): Promise<Store> {
  const target = await findTarget(state);
  if (target === null) return await (await import('./sqlite/open.ts')).openSqliteStore(state, options);
  return following(await (await import('./server/open.ts')).openServerStore(target));
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
  return following(await (await import('./server/open.ts')).openExistingServerStore(target));
}

/** All that this process says of the time is from now on what the server's clock shows. */
function following<T extends Store | null>(store: T): T {
  if (store?.fleet) followClock(store.fleet.clockOffsetMs);
  return store;
}

async function findTarget({ path }: StateFolder): Promise<DatabaseTarget | null> {
  if (!isOnServer()) return null;
  return (await import('./server/connect/url.ts')).readDatabaseUrl(dirname(path ?? '.'));
}
