import type { Store, StoreSession } from '../../store/contract/store.ts';
import { now } from '../../system/base/clock.ts';
import { machineName } from '../../system/process/identity.ts';
import type { WorkerEvents } from '../invocation/events.ts';
import type { StopRequest } from '../invocation/stop.ts';
import { BEAT_MS, LEASE_MS } from '../lock/lease.ts';

/** What tells other machines that the workers of this process live. */
export interface Heartbeat {
  /** Until when a worker is believed to live that begins at this instant. */
  leaseFrom(at: number): number;
  /** Renews a worker's lease, until it ends. */
  begin(workerId: number): void;
  /** To be called before its row ends. */
  end(workerId: number): void;
  /**
   * To be asked right before something is started. False: others may have taken over what this process has claimed, and
   * nothing is started any more.
   */
  mayStart(): boolean;
  /**
   * Renews a worker's lease in the transaction that claims something for it: what a worker claims that was given up is
   * taken from it at once. False: it was.
   */
  confirm(session: Pick<StoreSession, 'workers'>, workerId: number): Promise<boolean>;
  stop(): void;
}

/** So much sooner than others a worker takes its lease for over. */
const MARGIN_MS = 5_000;

/** Beats of many machines that were started at the same moment drift apart. */
const JITTER = 0.2;

interface Caller {
  readonly stop: StopRequest;
  readonly events: WorkerEvents;
}

interface Beating {
  readonly leaseMs?: number;
  readonly beatMs?: number;
}

/** One timer for all workers of the process, which have their turns one after the other. */
export function startHeartbeat(
  { stop, events }: Caller,
  store: Store,
  { leaseMs = LEASE_MS, beatMs = BEAT_MS }: Beating = {},
): Heartbeat {
  const workers = new Set<number>();
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
    // It has ended meanwhile, as it was to.
    if (workers.has(workerId)) note(isAlive, sent);
  };
  const note = (isAlive: boolean, sent: Clocks): void => {
    if (isAlive) renewed = sent;
    else lose(describeTakeover());
  };
  const beat = async (): Promise<void> => {
    // What goes wrong is tried again: all that counts is whether it has succeeded in time.
    await store.fleet?.followClock().catch(() => {});
    await Promise.allSettled([...workers].map(renew));
    mayStart();
    schedule();
  };
  const schedule = (): void => {
    if (workers.size === 0 || isLost) return;
    const afterMs = beatMs * (1 - JITTER + 2 * JITTER * Math.random());
    timer = setTimeout(() => void beat(), afterMs).unref();
  };
  return {
    leaseFrom: (at) => {
      if (workers.size === 0) renewed = readClocks();
      return at + leaseMs;
    },
    begin: (workerId) => {
      workers.add(workerId);
      clearTimeout(timer);
      schedule();
    },
    end: (workerId) => {
      workers.delete(workerId);
      if (workers.size === 0) clearTimeout(timer);
    },
    mayStart,
    confirm: async (session, workerId) => {
      const sent = readClocks();
      const isAlive = await session.workers.heartbeat(workerId, now() + leaseMs);
      note(isAlive, sent);
      return isAlive;
    },
    stop: () => {
      workers.clear();
      clearTimeout(timer);
    },
  };
}

/** The one stands still while the machine sleeps, the other can be set. */
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
