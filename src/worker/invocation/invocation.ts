import type { Script, Tier } from '../../discovery/script.ts';
import type { ReadCrontab } from '../../schedule/crontab-times.ts';
import { slotOf } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import type { Store } from '../../store/contract/store.ts';
import type { NewWorker } from '../../store/contract/workers.ts';
import type { Trigger, WorkerKind } from '../../store/words.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { identifyProcess } from '../../system/process/identity.ts';
import type { Heartbeat } from '../fleet/heartbeat.ts';
import type { WorkerRequest } from '../lock/registry.ts';
import type { Budget } from '../loop/budget.ts';
import type { RunRecorder } from '../record/run-recorder.ts';
import type { Orphan } from '../recovery/reconcile.ts';
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
  readonly trigger: Trigger;
  readonly stop: StopRequest;
  readonly events: WorkerEvents;
  /** How long the call may take, by the clock of `performance.now()`; null: as long as it takes. */
  readonly budget: Budget | null;
  /** What the script gets as arguments that somebody runs by hand. They are written down nowhere. */
  readonly args?: readonly string[];
  /** Somebody watches what it is asked to run: a failure is recorded as a run, and opens no incident. Default false. */
  readonly isWatched?: boolean;
  /** Where many machines share the log: what tells them that this process lives. */
  readonly heartbeat?: Heartbeat;
  /** When cron calls the tiers, which tells how late a pass is. Left out: nobody knows. */
  readonly crontab?: ReadCrontab;
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
  readonly recorder: RunRecorder;
  /** What must hold before a script is started; null: nothing, so that the next one can be prepared meanwhile. */
  readonly admit: Admission | null;
}

/** What is to be run of a tier. */
export interface TierRequest {
  readonly kind: WorkerKind;
  readonly tier: Tier;
  /** Those that get a job if they have none that is open: all of the tier, one of it, or none. */
  readonly scripts: readonly Script[];
  /** Whether it is called because the tier is due, by whomever. Left out: no. */
  readonly isDue?: true;
}

/** This process as the worker of a pass that begins now. */
export function describeWorker(
  call: Invocation,
  { kind, tier: { name: tier } }: Pick<TierRequest, 'kind' | 'tier'>,
): WorkerRequest {
  const worker = describeSelf(call, kind);
  const aheadMs = clockOffsetMs();
  return { ...worker, tier, scheduledFor: slotOf(tier, worker.startedAt - aheadMs, aheadMs) };
}

/** This process as a worker that begins now. */
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
 * Ends the worker's row; what kept it from starting everything is its reason. Another host may have found it
 * dead meanwhile, and taken the tier over: that stays said.
 */
export async function finishWorker(call: Invocation, store: Store, workerId: number): Promise<void> {
  const { stop, runner, heartbeat } = call;
  heartbeat?.end(workerId);
  const end = { state: 'finished', at: runner.now(), reason: stop.reason } as const;
  // Nobody is told of it before the log is closed, which has it on the disk.
  await store.transaction((session) => session.workers.end(workerId, end), 'soon');
}
