import { commandClock, type LogClock } from '../../system/base/clock.ts';
import { oneByOne } from '../shared/sql/statements.ts';
import { type Store, sessionOf } from '../store.ts';
import { describeServerFailure } from './connect/describe-failure.ts';
import type { DatabaseTarget } from './connect/url.ts';
import type { ServerEngine } from './engine.ts';
import { demandStillUsable, migrate, readSchemaVersion } from './migrate.ts';
import { type Patience, ServerSession } from './session.ts';
import { serverTaking } from './take-jobs.ts';
import { takeTurn } from './turn.ts';
import { watchServer } from './watch.ts';

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
export async function openSession(target: DatabaseTarget, patience?: Patience): Promise<ServerSession> {
  try {
    return new ServerSession(await loadEngine(target), target, patience);
  } catch (error) {
    throw describeServerFailure(error, target) ?? error;
  }
}

async function loadEngine({ engine }: DatabaseTarget): Promise<ServerEngine> {
  if (engine === 'postgres') return (await import('./postgres/engine.ts')).postgresEngine;
  return (await import('./mysql/engine.ts')).mysqlEngine;
}

/** Around a session of a server that has the tables, whose clock is followed from now on. */
async function createServerStore(session: ServerSession, clock: LogClock): Promise<Store> {
  clock.follow((await measureClock(session)).offsetMs);
  const asking = oneByOne(session, (work) => session.ask(work));
  const inTransaction = sessionOf(session, serverTaking(session));
  return {
    ...sessionOf(asking, serverTaking(asking)),
    engine: session.engine.name,
    fleet: { followClock: async () => clock.follow((await measureClock(session)).offsetMs) },
    isReadOnly: false,
    quarantined: null,
    transaction: (work) => session.transaction(() => work(inTransaction)),
    ...(session.engine.name === 'postgres' && { turn: (ended, request) => takeTurn(session, ended, request) }),
    // A server says that it has committed once that survives a power loss.
    sync: async () => {},
    onDurable: (notify) => notify(null),
    retryWhenFull: (work) => work(),
    queries: async () => {
      const { buildQueries } = await import('../shared/queries.ts');
      return buildQueries(session.engine.name, (text, values) => session.ask(() => session.allAsIs(text, values)));
    },
    // A server uses the room that has become free by itself.
    shrink: async () => {},
    watch: () => watchServer(session, clock),
    close: () => session.close(),
  };
}

/** A way that took longer is measured again: it may have been long in one direction only. */
const LONG_TRIP_MS = 50;
const LOOKS = 3;

/** The server's clock minus this machine's own, and how long it took to ask. */
export async function measureClock(session: ServerSession): Promise<{ offsetMs: number; tripMs: number }> {
  let best = { offsetMs: 0, tripMs: Number.POSITIVE_INFINITY };
  for (let look = 0; look < LOOKS && best.tripMs > LONG_TRIP_MS; look += 1) {
    const before = Date.now();
    const now = await session.ask(() => session.first<{ at: number }>(`select ${session.dialect.nowMs} as at`));
    const tripMs = Date.now() - before;
    if (now !== undefined && tripMs < best.tripMs) best = { offsetMs: now.at - (before + tripMs / 2), tripMs };
  }
  return best;
}
