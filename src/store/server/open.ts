import { commandClock, type LogClock } from '../../system/base/clock.ts';
import type { Store } from '../store.ts';
import { describeServerFailure } from './connect/describe-failure.ts';
import type { DatabaseTarget } from './connect/url.ts';
import type { ServerEngine } from './engine.ts';
import { demandStillUsable, migrate, readSchemaVersion } from './migrate.ts';
import { ServerSession } from './session.ts';
import { createServerStore } from './store.ts';

/**
 * @param clock follows the server's from now on
 * @throws {StoreUnavailable} when the server cannot be reached, or its tables are not to be used
 */
export async function openServerStore(target: DatabaseTarget, clock: LogClock = commandClock): Promise<Store> {
  const session = await openSession(target);
  return await orClosed(session, async () => {
    await migrate(session, target);
    session.onReconnect = () => demandStillUsable(session, target);
    return await createServerStore(session, clock);
  });
}

/** Null: there are no tables yet. */
export async function openExistingServerStore(target: DatabaseTarget): Promise<Store | null> {
  const session = await openSession(target);
  const { patienceMs } = session;
  return await orClosed(session, async () => {
    // A caller that only looks must not wait for long.
    session.patienceMs = target.connectTimeoutMs;
    const version = await readSchemaVersion(session, target);
    session.patienceMs = patienceMs;
    if (version === 0) {
      await session.close();
      return null;
    }
    session.onReconnect = () => demandStillUsable(session, target);
    return await createServerStore(session, commandClock);
  });
}

async function orClosed<T>(session: ServerSession, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    await session.close();
    throw error;
  }
}

/** Connects with the first question. */
export async function openSession(target: DatabaseTarget): Promise<ServerSession> {
  try {
    return new ServerSession(await loadEngine(target), target);
  } catch (error) {
    throw describeServerFailure(error, target) ?? error;
  }
}

export async function loadEngine({ engine }: DatabaseTarget): Promise<ServerEngine> {
  if (engine === 'postgres') return (await import('./postgres/engine.ts')).postgresEngine;
  return (await import('./mysql/engine.ts')).mysqlEngine;
}
