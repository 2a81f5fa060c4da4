import type { Kysely } from 'kysely';
import type { ActivityLog } from '../schema.ts';
import type { ChoreStore, DeliveryStore, IncidentStore, TelemetryStore } from './alerts.ts';
import type { EventStore, PauseStore, PruneStore } from './housekeeping.ts';
import type { ClaimRequest, ClaimStore, JobStore, ScriptJobStore, StoreTurn } from './jobs.ts';
import type { CheckStore, Glance, GlanceFrom, MetricStore } from './metrics.ts';
import type { MachineStore, TokenStore } from './registers.ts';
import type { FinishedClaim, RunStore, UsualStore } from './runs.ts';
import type { WorkerStore } from './workers.ts';

/**
 * What the product asks of a store, in its own words. Domain code decides on values; a store reads and
 * writes them. An engine implements it in a folder of its own; nothing here supposes one writer at a time.
 */
export interface Store extends StoreSession {
  readonly engine: 'sqlite' | 'postgres' | 'mysql';
  /** What machines that share the log must know; null: it is a file, beside the jobs. */
  readonly fleet: Fleet | null;
  /** True where the log can only be read: writing to it fails. */
  readonly isReadOnly: boolean;
  /** That a broken log was quarantined, and where it is now: a sentence for people. */
  readonly quarantined: string | null;
  /**
   * Does work whole or not at all, seen by nobody before its end. What it has locked of jobs, nobody else changes until
   * then. Every write of more than one row goes through it.
   */
  transaction<T>(work: (session: StoreSession) => Promise<T>, durability?: Durability): Promise<T>;
  /**
   * What a worker mostly asks for between its jobs, on a server in one trip: {@link RunStore.finish}, and
   * {@link ClaimStore.claim} of what is next. Null: nothing was done, as it takes more than that. Left out: a
   * transaction is no slower.
   */
  turn?(ended: readonly FinishedClaim[], request: ClaimRequest): Promise<StoreTurn | null>;
  /** Has all that was committed on the disk. */
  sync(): Promise<void>;
  /** Called once all that is committed by now survives a power loss, or cannot be known to; at once if that is so. */
  onDurable(notify: NotifyDurable): void;
  /** For what must not be lost: on a full disk the reserve is given up, and the work tried once more. */
  retryWhenFull<T>(work: () => Promise<T>): Promise<T>;
  /** For reports: portable queries, built by Kysely, which is loaded only now. They change nothing. */
  queries(): Promise<Kysely<ActivityLog>>;
  /** For health checks, which are loaded only now. They change nothing. */
  checks(): Promise<CheckStore>;
  /** Whether checks may find something, and how tiers stand, which most often is all that is asked. */
  glance(from: GlanceFrom, tiers: readonly string[]): Promise<Glance>;
  /** Lets whoever finds nothing to do sleep until another process has committed. */
  watch(): ChangeWatch;
  close(): Promise<void>;
}

/** Many machines on one log live by the clock of its server. */
export interface Fleet {
  /** Compares the clocks again: this machine's own may have been set since the log was opened. */
  followClock(): Promise<void>;
}

/**
 * `durable`: survives a power loss once the transaction has ended. `soon`: survives the death of this
 * process at once, and a power loss a moment later; {@link Store.onDurable} tells when.
 */
export type Durability = 'durable' | 'soon';

/** @param failure null: it is durable; else why the disk did not take it, after which the log takes nothing more */
export type NotifyDurable = (failure: unknown) => void;

/** Everything that can be asked inside a transaction, or alone where it is one statement. */
export interface StoreSession {
  readonly jobs: JobStore;
  readonly claims: ClaimStore;
  readonly scriptJobs: ScriptJobStore;
  readonly runs: RunStore;
  readonly workers: WorkerStore;
  readonly events: EventStore;
  readonly pauses: PauseStore;
  readonly pruning: PruneStore;
  readonly usual: UsualStore;
  readonly chores: ChoreStore;
  readonly deliveries: DeliveryStore;
  readonly telemetry: TelemetryStore;
  readonly incidents: IncidentStore;
  readonly metrics: MetricStore;
  readonly tokens: TokenStore;
  readonly machines: MachineStore;
}

/** Lets whoever finds nothing to do sleep until another process has written to the log. */
export interface ChangeWatch {
  /** Which version of the log is seen now. To be asked before looking for work, not after it. */
  look(): number;
  /**
   * Sleeps until another connection has committed since that look, the clock shows `untilMs` (null:
   * never), or a signal tells to stop; not at all if that is so already.
   */
  changed(since: number, untilMs: number | null, ...signals: AbortSignal[]): Promise<WaitEnd>;
  /** There was something to do. Who never finds anything while others write is woken less often. */
  found(): void;
  close(): void;
}

export type WaitEnd = 'changed' | 'due' | 'stopped';
