import type { Store, StoreSession } from '../../store/store.ts';
import { now } from '../../system/base/clock.ts';
import { machineName } from '../../system/process/identity.ts';
import { BEAT_MS, LEASE_MS } from '../recovery/tier-lock.ts';

export type Heartbeat = ReturnType<typeof startHeartbeat>;

/** How much earlier than others a worker considers its own lease to be over, in milliseconds. */
const MARGIN_MS = 5_000;

/** Random part of the time between beats: beats of machines that started together drift apart. */
const JITTER = 0.2;

interface Caller {
  readonly stop: { startNothing(reason: string): void };
  readonly events: { emit(event: 'problem', sentence: string): unknown };
}

interface Beating {
  readonly leaseMs?: number;
  readonly beatMs?: number;
}

/** Shows other machines that the workers of this process are alive. One timer serves all workers, which take turns. */
export function startHeartbeat(
  { stop, events }: Caller,
  store: Store,
  { leaseMs = LEASE_MS, beatMs = BEAT_MS }: Beating = {},
) {
  const workers = new Set<number>();
  const { atBeats, lookAll } = createLooks();
  let renewed = readClocks();
  let isLost = false;
  let timer: NodeJS.Timeout | undefined;
  const lose = (why: string): void => {
    if (!isLost) events.emit('problem', why);
    isLost = true;
    stop.startNothing(`${machineName()} gave no sign of life in time`);
  };
  const mayStart = (): boolean => {
    if (!isLost && workers.size > 0 && elapsedMs(renewed) > leaseMs - MARGIN_MS) lose(describeLapse());
    return !isLost;
  };
  const renew = async (workerId: number): Promise<void> => {
    const sent = readClocks();
    const isAlive = await store.workers.heartbeat(workerId, now() + leaseMs);
    // A worker that has ended as planned meanwhile does not count.
    if (workers.has(workerId)) note(isAlive, sent);
  };
  const note = (isAlive: boolean, sent: Clocks): void => {
    if (isAlive) renewed = sent;
    else lose(describeTakeover());
  };
  const beat = async (): Promise<void> => {
    // A failure is retried at the next beat: only a success in time counts.
    await Promise.allSettled([store.fleet?.followClock()]);
    await Promise.allSettled([...workers].map(renew));
    lookAll();
    mayStart();
    schedule();
  };
  const schedule = (): void => {
    if (workers.size === 0 || isLost) return;
    const afterMs = beatMs * (1 - JITTER + 2 * JITTER * Math.random());
    timer = setTimeout(() => void beat(), afterMs).unref();
  };
  return {
    /** The end of the lease of a worker that begins at this instant. */
    leaseFrom: (at: number): number => {
      if (workers.size === 0) renewed = readClocks();
      return at + leaseMs;
    },
    /** Renews a worker's lease until `end`. */
    begin: (workerId: number): void => {
      workers.add(workerId);
      clearTimeout(timer);
      schedule();
    },
    /** Call it before the worker's row ends. */
    end: (workerId: number): void => {
      workers.delete(workerId);
      if (workers.size === 0) clearTimeout(timer);
    },
    /**
     * Call it right before starting something. False: others may have taken over the claims of this process, so it
     * starts nothing more.
     */
    mayStart,
    /**
     * Renews a worker's lease in the transaction that claims something for it: a claim of a worker that was given up is
     * taken from it at once. False: the worker was given up.
     */
    confirm: async (session: Pick<StoreSession, 'workers'>, workerId: number): Promise<boolean> => {
      const sent = readClocks();
      const isAlive = await session.workers.heartbeat(workerId, now() + leaseMs);
      note(isAlive, sent);
      return isAlive;
    },
    /** Calls back at each beat, until the returned function is called. */
    atBeats,
    stop: (): void => {
      workers.clear();
      clearTimeout(timer);
    },
  };
}

/** Functions to call at each look. */
function createLooks() {
  const looks = new Set<() => void>();
  return {
    lookAll: (): void => {
      for (const look of looks) look();
    },
    atBeats: (look: () => void): (() => void) => {
      looks.add(look);
      return () => void looks.delete(look);
    },
  };
}

/** The monotonic clock stands still while the machine sleeps; the wall clock can be set. */
interface Clocks {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

function readClocks(): Clocks {
  return { monotonicMs: performance.now(), wallMs: Date.now() };
}

function elapsedMs(since: Clocks): number {
  return Math.max(performance.now() - since.monotonicMs, Date.now() - since.wallMs);
}

function describeTakeover(): string {
  return (
    `another machine has taken over the runs of ${machineName()}, which had given no sign of life: nothing more ` +
    'is started here, and of running scripts only ' +
    'the output is kept'
  );
}

function describeLapse(): string {
  return (
    `${machineName()} could not report to the other machines in time, so they may take over its runs: nothing more ` +
    'is started here'
  );
}
