import type { Script, Tier } from '../../discovery/script.ts';
import type { NewWorker, WorkerRequest } from '../../lock/registry.ts';
import { identifyProcess } from '../../process/identity.ts';
import type { Orphan } from '../../recovery/reconcile.ts';
import { periodStart } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import { recordActivity } from '../../store/events.ts';
import type { CalledBy, WorkerKind } from '../../store/schema.ts';
import type { Database, Store } from '../../store/store.ts';
import type { Budget } from '../loop/budget.ts';
import type { Journal } from '../record/run-recorder.ts';
import type { WorkerEvents } from './events.ts';
import type { StopRequest } from './stop.ts';

/**
 * Asked before a script is started: null, or why it is to be left to the next pass. It may take its
 * time, and wait for room.
 */
export type Admission = (script: Script) => Promise<string | null>;

/** What all passes of one call of the runner share. */
export interface Invocation {
  readonly runner: Runner;
  readonly calledBy: CalledBy;
  readonly stop: StopRequest;
  readonly events: WorkerEvents;
  /** How long the call may take, by the clock of `performance.now()`; null: as long as it takes. */
  readonly budget: Budget | null;
}

/** A call that has the log, which tells the truth. */
export interface StoreInvocation extends Invocation {
  readonly store: Store;
  /** Their scripts are not to be started a second time. */
  readonly orphans: readonly Orphan[];
  /** Tiers of which the log does not tell the truth until what was spooled is taken in. */
  readonly spooledTiers: Set<string>;
}

/** One worker at work on one tier, whose lock it holds. */
export interface TierPass extends Invocation {
  readonly tier: string;
  readonly journal: Journal;
  /** What must hold before a script is started. */
  readonly admit: Admission;
}

/** What is to be run of a tier. */
export interface TierRequest {
  readonly kind: WorkerKind;
  readonly tier: Tier;
  /** Those that get a job if they have none that is open: all of the tier, one of it, or none. */
  readonly scripts: readonly Script[];
}

/** This process as the worker of a pass that begins now. */
export function describeWorker(
  call: Invocation,
  { kind, tier: { name: tier } }: Pick<TierRequest, 'kind' | 'tier'>,
): WorkerRequest {
  const worker = describeSelf(call, kind);
  return { ...worker, tier, scheduledFor: periodStart(tier, worker.startedAt) };
}

/** This process as a worker that begins now. */
export function describeSelf({ runner, calledBy }: Invocation, kind: WorkerKind): NewWorker {
  return {
    kind,
    tier: null,
    self: identifyProcess(process.pid),
    scheduledFor: null,
    startedAt: runner.now(),
    calledBy,
    runnerVersion: runner.version,
  };
}

/** Ends the worker's row; what kept it from starting everything is its reason. */
export async function finishWorker(
  { stop, runner }: Invocation,
  db: Database,
  workerId: number,
): Promise<void> {
  const at = runner.now();
  await db.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .updateTable('workers')
      .set({ state: 'finished', finished_at: at, reason: stop.reason })
      .where('id', '=', workerId)
      // Another host may have found it dead meanwhile, and taken the tier over: that stays said.
      .where('state', '=', 'running')
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return;
    await recordActivity(transaction, {
      at,
      event: 'worker-finished',
      workerId,
      detail: stop.reason,
    });
  });
}
