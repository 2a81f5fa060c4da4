import type { LogClock } from '../../system/base/clock.ts';
import { oneByOne } from '../shared/sql/statements.ts';
import { type Store, sessionOf } from '../store.ts';
import type { ServerSession } from './session.ts';
import { serverTaking } from './take-jobs.ts';
import { takeTurn } from './turn.ts';
import { watchServer } from './watch.ts';

/** Around a session of a server that has the tables, whose clock is followed from now on. */
export async function createServerStore(session: ServerSession, clock: LogClock): Promise<Store> {
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
      const compiler = await session.engine.loadCompiler();
      return buildQueries(compiler, (text, values) => session.ask(() => session.allAsIs(text, values)));
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
