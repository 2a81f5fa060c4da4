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
 * The product's demands on a store, in its own terms. Domain code decides on values; a store reads and writes them.
 * Each engine implements it in its own folder; nothing here assumes one writer at a time.
 */
export interface Store extends StoreSession {
  readonly engine: 'sqlite' | 'postgres' | 'mysql';
  /** The part for machines that share the log; null: the log is a file beside the jobs. */
  readonly fleet: Fleet | null;
  /** True if the log can only be read: writing to it fails. */
  readonly isReadOnly: boolean;
  /** One sentence for people that says that a broken log was quarantined, and where it is now; null: it was not. */
  readonly quarantined: string | null;
  /**
   * Does work as a whole or not at all. Until its end, no other process sees its changes, nor changes the jobs that it
   * has locked. Every write of more than one row goes through it.
   */
  transaction<T>(work: (session: StoreSession) => Promise<T>, durability?: Durability): Promise<T>;
  /**
   * A worker's usual work between its jobs, on a server in one round trip: {@link RunStore.finish}, and
   * {@link ClaimStore.claim} of the next jobs. Null: nothing was done, because it takes more than that. Absent: a
   * transaction is no slower.
   */
  turn?(ended: readonly FinishedClaim[], request: ClaimRequest): Promise<StoreTurn | null>;
  /** Writes all that was committed to the disk. */
  sync(): Promise<void>;
  /**
   * Calls back once all that is committed by now survives a power loss, or with the failure that leaves this uncertain;
   * at once if that is so already.
   */
  onDurable(notify: NotifyDurable): void;
  /** For work that must not be lost: on a full disk it gives up the reserve and tries once more. */
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
  /** Call it after a wake-up that found work. A caller that never finds any while others write is woken less often. */
  found(): void;
  close(): void;
}

export type WaitEnd = 'changed' | 'due' | 'stopped';
