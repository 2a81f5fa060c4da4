import { commandClock, type LogClock } from '../../system/base/clock.ts';
import { oneByOne } from '../shared/sql/statements.ts';
import { type ChangeWatch, type Store, sessionOf, type WaitEnd } from '../store.ts';
import { describeServerFailure } from './connect/describe-failure.ts';
import type { DatabaseTarget } from './connect/url.ts';
import type { ServerEngine } from './engine.ts';
import { demandStillUsable, migrate, readSchemaVersion } from './migrate.ts';
import { type Patience, ServerSession } from './session.ts';
import { serverTaking } from './take-jobs.ts';
import { takeTurn } from './turn.ts';

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

/** How often the log is polled if the server sends notices, in milliseconds: a notice may be lost. */
const SLOW_POLL_MS = 2_000;

/**
 * Without notices, a waiting session polls: soon after it has found work, then less and less often, in milliseconds.
 */
const FIRST_POLL_MS = 25;
const POLL_GROWTH = 1.5;
const LONGEST_POLL_MS = 1_000;

/**
 * A session that is woken in vain several times in a row rests after each time, in milliseconds: otherwise all waiting
 * sessions would query after each commit.
 */
const VAIN_WAKES = 4;
const FIRST_REST_MS = 10;
const LONGEST_REST_MS = 250;
const QUIET_MS = 1_000;

/** Watches by the server's notices of others' commits, or by polling if it sends none. */
function watchServer(session: Pick<ServerSession, 'listen'>, clock: LogClock): ChangeWatch {
  const closing = new AbortController();
  const waiting = new Set<() => void>();
  let version = 0;
  let pollMs = FIRST_POLL_MS;
  let isTold = false;
  let isListening = false;
  const change = (): void => {
    version += 1;
    for (const wake of [...waiting]) wake();
  };
  const listen = async (): Promise<void> => {
    isListening = true;
    try {
      isTold = await session.listen(change);
      // Changes made before the first notice may be news.
      if (isTold) change();
    } catch {
      // The query for work that follows meets the same failure, and reports it.
      isListening = false;
    }
  };
  const pollRestMs = (): number => {
    if (isTold) return SLOW_POLL_MS;
    const rest = pollMs;
    pollMs = Math.min(pollMs * POLL_GROWTH, LONGEST_POLL_MS);
    return rest;
  };
  let vainWakes = 0;
  let wokenAt = Number.NEGATIVE_INFINITY;
  const wakeUp = (): WaitEnd => {
    vainWakes = performance.now() - wokenAt > QUIET_MS ? 1 : vainWakes + 1;
    wokenAt = performance.now();
    return 'changed';
  };
  const vainRestMs = (): number =>
    vainWakes <= VAIN_WAKES ? 0 : Math.min(FIRST_REST_MS * 2 ** (vainWakes - VAIN_WAKES), LONGEST_REST_MS);
  let lookedAt = Number.NEGATIVE_INFINITY;
  return {
    look: () => {
      if (!isListening) void listen();
      // Without notices, values read a moment ago may be old.
      if (!isTold && performance.now() - lookedAt > LONGEST_REST_MS) {
        lookedAt = performance.now();
        version += 1;
      }
      return version;
    },
    found: () => {
      pollMs = FIRST_POLL_MS;
      vainWakes = 0;
    },
    changed: async (since, untilMs, ...others) => {
      const signals = [closing.signal, ...others];
      if (signals.some(({ aborted }) => aborted)) return 'stopped';
      const rested = vainRestMs() === 0 ? 'changed' : await sleep(new Set(), vainRestMs(), untilMs, clock, signals);
      if (rested !== 'changed') return rested;
      if (version !== since) return wakeUp();
      const end = await sleep(waiting, pollRestMs(), untilMs, clock, signals);
      return end === 'changed' && version !== since ? wakeUp() : end;
    },
    close: () => closing.abort(),
  };
}

/** Until one of them happens: news, the next look, the instant, a signal. */
function sleep(
  waiting: Set<() => void>,
  restMs: number,
  untilMs: number | null,
  clock: LogClock,
  signals: readonly AbortSignal[],
): Promise<WaitEnd> {
  return new Promise((resolve) => {
    const leftMs = untilMs === null ? Number.POSITIVE_INFINITY : Math.max(untilMs - clock.now(), 0);
    const end = (how: WaitEnd): void => {
      clearTimeout(timer);
      waiting.delete(wake);
      for (const signal of signals) signal.removeEventListener('abort', stop);
      resolve(how);
    };
    const wake = (): void => end('changed');
    const stop = (): void => end('stopped');
    const timer = setTimeout(() => end(leftMs <= restMs ? 'due' : 'changed'), Math.min(leftMs, restMs));
    waiting.add(wake);
    for (const signal of signals) signal.addEventListener('abort', stop);
  });
}
