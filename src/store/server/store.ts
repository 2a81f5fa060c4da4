import type { LogClock } from '../../system/base/clock.ts';
import type { PruneStore } from '../contract/housekeeping.ts';
import type { ClaimStore } from '../contract/jobs.ts';
import type { Store, StoreSession } from '../contract/store.ts';
import { areasOf, asLazy } from '../shared/areas.ts';
import type { ServerSession } from './session.ts';
import { watchServer } from './watch.ts';

/** Around a session of a server that has the tables, whose clock is followed from now on. */
export async function createServerStore(session: ServerSession, clock: LogClock): Promise<Store> {
  clock.follow(await measureClock(session));
  const inTurn = (work: () => unknown) => session.ask(async () => await work());
  const inTransaction = allAreasOf(session, async (work) => await work());
  return {
    engine: session.engine.name,
    fleet: { followClock: async () => clock.follow(await measureClock(session)) },
    isReadOnly: false,
    quarantined: null,
    ...allAreasOf(session, inTurn),
    transaction: (work) => session.transaction(() => work(inTransaction)),
    ...(session.engine.name === 'postgres' && { turn: turnsOf(session) }),
    // A server says that it has committed once that survives a power loss.
    sync: async () => {},
    onDurable: (notify) => notify(null),
    retryWhenFull: (work) => work(),
    queries: async () => {
      const { buildQueries } = await import('../shared/queries.ts');
      const compiler = await session.engine.loadCompiler();
      return buildQueries(compiler, (text, values) => session.ask(() => session.allAsIs(text, values)));
    },
    checks: async () => asLazy(async () => (await import('../statements/monitor/checks.ts')).checksOf(session), inTurn),
    glance: async (from, tiers) => {
      const { glanceAt } = await import('../statements/monitor/glance.ts');
      return await session.ask(() => glanceAt(session, from, tiers));
    },
    watch: () => watchServer(session, clock),
    close: () => session.close(),
  };
}

/** Only those who work jobs off need it. */
function turnsOf(session: ServerSession): NonNullable<Store['turn']> {
  let loaded: Promise<typeof import('./turn.ts')> | null = null;
  return async (ended, request) => {
    loaded ??= import('./turn.ts');
    return await (await loaded).takeTurn(session, ended, request);
  };
}

/** Each area's statements are loaded when it is first asked. */
function allAreasOf(session: ServerSession, call: (work: () => unknown) => Promise<unknown>): StoreSession {
  return {
    ...areasOf(session, call),
    claims: asLazy(() => loadClaims(session), call),
    pruning: asLazy(() => loadPruning(session), call),
  };
}

async function loadClaims(session: ServerSession): Promise<ClaimStore> {
  const [{ claimsOf }, { serverTaking }] = await Promise.all([
    import('../statements/claims.ts'),
    import('./take-jobs.ts'),
  ]);
  return { ...claimsOf(session), ...serverTaking(session) };
}

/** A server uses the room that has become free by itself. */
async function loadPruning(session: ServerSession): Promise<PruneStore> {
  const { pruningOf } = await import('../statements/pruning.ts');
  return { ...pruningOf(session), shrink: async () => {} };
}

/** A way that took longer is measured again: it may have been long in one direction only. */
const LONG_TRIP_MS = 50;
const LOOKS = 3;

async function measureClock(session: ServerSession): Promise<number> {
  let best = { offsetMs: 0, tripMs: Number.POSITIVE_INFINITY };
  for (let look = 0; look < LOOKS && best.tripMs > LONG_TRIP_MS; look += 1) {
    const before = Date.now();
    const now = await session.ask(() => session.first<{ at: number }>(`select ${session.dialect.nowMs} as at`));
    const tripMs = Date.now() - before;
    if (now !== undefined && tripMs < best.tripMs) best = { offsetMs: now.at - (before + tripMs / 2), tripMs };
  }
  return best.offsetMs;
}
