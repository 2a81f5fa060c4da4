import type { Script, Tier } from '../../discovery/script.ts';
import type { ReadCrontab } from '../../schedule/crontab-times.ts';
import { slotOf } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import type { Store } from '../../store/store.ts';
import type { Trigger, WorkerKind } from '../../store/words.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { identifyProcess } from '../../system/process/identity.ts';
import type { Orphan } from '../recovery/reconcile.ts';
import type { WorkerRequest } from '../recovery/tier-lock.ts';
import type { WorkerEvents } from './events.ts';
import type { Heartbeat } from './heartbeat.ts';
import type { StopRequest } from './stop.ts';

/** How long one call of the runner may take, over all its passes. */
export interface Budget {
  readonly budgetMs: number;
  /** Start of the call, by `performance.now()`. */
  readonly startedAt: number;
  /** Set once a script was started within the budget. */
  isBegun: boolean;
}

/** Called before a script starts: null, or why it is left to the next pass. It may take time, and wait for room. */
export type Admission = (script: Script) => Promise<string | null>;

/** The parts that all passes of one call of the runner share. */
export interface Invocation {
  readonly runner: Runner;
  readonly trigger: Trigger;
  readonly stop: StopRequest;
  readonly events: WorkerEvents;
  /** How long the call may take, on the clock of `performance.now()`; null: no limit. */
  readonly budget: Budget | null;
  /** The arguments of a script that a person runs by hand. They are recorded nowhere. */
  readonly args?: readonly string[];
  /** Whether a person watches the runs: then a failure is recorded as a run, but opens no incident. Default false. */
  readonly isWatched?: boolean;
  /** Present if several machines share the log: shows them that this process is alive. */
  readonly heartbeat?: Heartbeat;
  /** The times at which cron calls the tiers, from which a pass's delay follows. Absent: unknown. */
  readonly crontab?: ReadCrontab;
}

/** A call with an open log, which is up to date. */
export interface StoreInvocation extends Invocation {
  readonly store: Store;
  /** Runs that outlived their runner; their scripts must not be started a second time. */
  readonly orphans: readonly Orphan[];
  /** Tiers for which the log is incomplete until their spooled runs are taken in. */
  readonly spooledTiers: Set<string>;
}

/** The part of a tier that is to run. */
export interface TierRequest {
  readonly kind: WorkerKind;
  readonly tier: Tier;
  /** Scripts that get a job if they have no open one: all of the tier, one of it, or none. */
  readonly scripts: readonly Script[];
  /** Whether the call was made because the tier is due, by any caller. Default: no. */
  readonly isDue?: true;
}

/** Describes this process as the worker of a pass that begins now. */
export function describeWorker(
  call: Invocation,
  { kind, tier: { name: tier } }: Pick<TierRequest, 'kind' | 'tier'>,
): WorkerRequest {
  const worker = describeSelf(call, kind);
  const aheadMs = clockOffsetMs();
  return { ...worker, tier, scheduledFor: slotOf(tier, worker.startedAt - aheadMs, aheadMs) };
}

/** Describes this process as a worker that begins now. */
export function describeSelf({ runner, trigger, heartbeat }: Invocation, kind: WorkerKind): NewWorker {
  const startedAt = runner.now();
  return {
    kind,
    tier: null,
    ...identifyProcess(process.pid),
    trigger,
    scheduledFor: null,
    startedAt,
    leaseExpiresAt: heartbeat?.leaseFrom(startedAt) ?? null,
    runnerVersion: runner.version,
    nodeVersion: process.version,
  };
}

/**
 * Ends the worker's row; its reason says why it did not start everything. If another host has found the worker dead
 * meanwhile and taken the tier over, the row keeps saying so.
 */
export async function finishWorker(call: Invocation, store: Store, workerId: number): Promise<void> {
  const { stop, runner, heartbeat } = call;
  heartbeat?.end(workerId);
  const end = { state: 'finished', at: runner.now(), reason: stop.reason } as const;
  // The log is closed before this end is reported to anybody, and closing writes it to the disk.
  await store.transaction((session) => session.workers.end(workerId, end), 'soon');
}
