import type { Kysely } from 'kysely';
import type { EngineName } from './columns.ts';
import type { ActivityLog } from './schema.ts';
import type { Statements } from './shared/sql/statements.ts';
import type { Durability, NotifyDurable } from './sqlite/session.ts';
import { type ClaimRequest, claimsOf, type JobTaking, type StoreTurn } from './statements/claims.ts';
import { eventsOf } from './statements/events.ts';
import { jobsOf } from './statements/jobs.ts';
import { choresOf, deliveriesOf } from './statements/monitor/alerts.ts';
import { pausesOf } from './statements/pauses.ts';
import { type FinishedClaim, runsOf } from './statements/runs.ts';
import { scriptJobsOf } from './statements/script-jobs.ts';
import { workersOf } from './statements/workers.ts';

/**
 * The areas of statements that passes need, to be used inside a transaction, or outside for a single statement. Callers
 * that need others build them around the statements: `incidentsOf(session.statements)`.
 *
 * @param taking how the engine takes jobs
 */
export function sessionOf(statements: Statements, taking: JobTaking) {
  return {
    statements,
    jobs: jobsOf(statements),
    claims: { ...claimsOf(statements), ...taking },
    scriptJobs: scriptJobsOf(statements),
    runs: runsOf(statements),
    workers: workersOf(statements),
    events: eventsOf(statements),
    pauses: pausesOf(statements),
    chores: choresOf(statements),
    deliveries: deliveriesOf(statements),
  };
}

export interface StoreSession extends ReturnType<typeof sessionOf> {}

/** An open log. Nothing that asks it assumes that one process writes at a time. */
export interface Store extends StoreSession {
  readonly engine: EngineName;
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
   * A worker's usual work between its jobs, on a server in one round trip: `runs.finish`, and `claims.claim` of the
   * next jobs. Null: nothing was done, because it takes more than that. Absent: a transaction is no slower.
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
  /** Gives up to this many free pages back to the disk, unless others are writing. */
  shrink(pages: number): Promise<void>;
  /** Lets whoever finds nothing to do sleep until another process has committed. */
  watch(): ChangeWatch;
  close(): Promise<void>;
}

/** Many machines on one log live by the clock of its server. */
export interface Fleet {
  /** Compares the clocks again: this machine's own may have been set since the log was opened. */
  followClock(): Promise<void>;
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
