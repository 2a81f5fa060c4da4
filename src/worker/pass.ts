import type { Script } from '../discovery/script.ts';
import type { Store } from '../store/open-store.ts';
import type { CalledBy } from '../store/schema.ts';
import type { Budget } from './budget.ts';
import type { Journal } from './journal.ts';
import type { Orphan } from './reconcile.ts';
import type { Runner } from './runner.ts';
import type { StopRequest } from './stop-request.ts';
import type { WorkerEvents } from './worker-events.ts';

/**
 * Asked before a script is started: null, or why it is to be left to the next pass. It may take its
 * time, and wait for room.
 */
export type Admission = (script: Script) => Promise<string | null>;

/** What all passes of one call of the runner share. */
export interface Call {
  readonly runner: Runner;
  readonly calledBy: CalledBy;
  readonly stop: StopRequest;
  readonly events: WorkerEvents;
  /** How long the call may take, by the clock of `performance.now()`; null: as long as it takes. */
  readonly budget: Budget | null;
}

/** A call that has the log, which tells the truth. */
export interface LoggedCall extends Call {
  readonly store: Store;
  /** Their scripts are not to be started a second time. */
  readonly orphans: readonly Orphan[];
  /** Tiers of which the log does not tell the truth until what was spooled is taken in. */
  readonly spooledTiers: Set<string>;
}

/** One worker at work on one tier, whose lock it holds. */
export interface Pass extends Call {
  readonly tier: string;
  readonly journal: Journal;
  /** What must hold before a script is started. */
  readonly admit: Admission;
}
