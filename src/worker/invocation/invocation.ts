import { EventEmitter } from 'node:events';
import type { Script, Tier } from '../../discovery/script.ts';
import type { KeptEnd, RunEnd } from '../../execution/result/result.ts';
import type { UnsentMail } from '../../monitor/alert/deliver.ts';
import type { PrintedIncident } from '../../monitor/alert/tell.ts';
import type { ReadCrontab } from '../../schedule/crontab-times.ts';
import { slotOf } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import type { Store } from '../../store/store.ts';
import type { Trigger, WorkerKind } from '../../store/words.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { identifyProcess } from '../../system/process/identity.ts';
import { userName } from '../../system/process/user.ts';
import type { Orphan } from '../recovery/reconcile.ts';
import type { WorkerRequest } from '../recovery/tier-lock.ts';
import type { Heartbeat } from './heartbeat.ts';

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

/** The result of a call. */
export interface CallSummary {
  /** How its runs ended; null: the requested work was skipped. */
  readonly ends: readonly KeptEnd[] | null;
  /** Whether the requested work could not be done, or only in part. Default false. */
  readonly isBroken?: boolean;
}

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
    // The dashboard says for whom it calls.
    actor: trigger === 'manual' ? (runner.environment.RUNNER_CALLER ?? userName()) : null,
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

/** How scripts that were not started are treated: left to the next pass of any tier, or cancelled. */
type Rest = 'defer' | 'cancel';

/** `replaced`: the package or Node was, so that no script can begin. */
type StopCause = 'replaced';

/** The reason why no further script may start; the first reason stays. */
export interface StopRequest {
  /** Null while work may go on. */
  readonly reason: string | null;
  /** A code for the reason, if a caller needs it; null: any other reason. */
  readonly cause: StopCause | null;
  readonly rest: Rest;
  /** Whether someone else asked for the stop, as by a signal: then other ends at that time may have the same cause. */
  readonly isTold: boolean;
  /** Aborted as soon as there is a reason, so that all waits for work end. */
  readonly noMore: AbortSignal;
  /** Aborted when running scripts must end, too. */
  readonly signal: AbortSignal;
  /** Aborted when running scripts must end at once. */
  readonly kill: AbortSignal;
  /** Starts nothing more; running scripts finish. */
  startNothing(reason: string, cause?: StopCause): void;
  /** Like `startNothing`, at someone else's request. */
  finish(reason: string): void;
  /** Ends running scripts, and starts nothing more. */
  endAll(reason: string, rest: Rest): void;
  /** Ends running scripts at once, by SIGKILL. */
  killAll(): void;
}

export function createStopRequest(): StopRequest {
  const controller = new AbortController();
  const killer = new AbortController();
  const closing = new AbortController();
  const state = {
    reason: null as string | null,
    cause: null as StopCause | null,
    rest: 'defer' as Rest,
    isTold: false,
    noMore: closing.signal,
    signal: controller.signal,
    kill: killer.signal,
    startNothing(reason: string, cause?: StopCause): void {
      if (state.reason === null) Object.assign(state, { reason, cause: cause ?? null });
      closing.abort();
    },
    finish(reason: string): void {
      state.isTold = true;
      state.startNothing(reason);
    },
    endAll(reason: string, rest: Rest): void {
      state.finish(reason);
      state.rest = rest;
      controller.abort();
    },
    killAll: () => killer.abort(),
  };
  return state;
}

export interface PassStarted {
  readonly tier: string;
  /** The scripts that it will run. */
  readonly scripts: readonly string[];
  /** Whether the tier contains any script. */
  readonly hasScripts: boolean;
  /**
   * The usual duration of a script's last successful runs in milliseconds; null: none, or the log cannot be read.
   * Absent: no log.
   */
  readonly usualDurationMs?: (script: string) => Promise<number | null>;
}

interface PassSkipped {
  readonly tier: string;
  /** "another pass of hourly is running: pid 4711 on web3, since …" */
  readonly reason: string;
  /** Whether a pause has kept it from running. Default: no. */
  readonly isPaused?: true;
}

interface PassFinished {
  readonly tier: string;
}

export interface RunStarted {
  /** The key that names its files, by which its output is found while it runs. */
  readonly key: string;
  readonly script: string;
  /** The file of its output until its end is recorded; null: jobs before and after it write to the same file. */
  readonly output: string | null;
}

export interface RunFinished extends Omit<RunStarted, 'output'> {
  /** Its number in the log; null: not in the log, or not yet. */
  readonly runId: number | null;
  /** The number of a job of the queue; null: the run of a script. */
  readonly jobId: number | null;
  readonly end: RunEnd;
  /** When a failed run is tried again; null: never, or not known yet. */
  readonly nextTryAt: number | null;
}

/** The events of a pass; the terminal and the summary for cron's mail listen to them. */
interface WorkerEventMap {
  'pass-skipped': [PassSkipped];
  'pass-started': [PassStarted];
  'run-started': [RunStarted];
  'run-finished': [RunFinished];
  /** One sentence about a problem that needs a person: the log is lost, or was quarantined. */
  problem: [string];
  /** One sentence that says why something does not run now: it still runs, or is left to the next pass. */
  deferred: [string];
  /** One sentence about a problem that does not stop the pass. */
  warning: [string];
  'pass-finished': [PassFinished];
  /** Nothing runs any more, and no lock is held. The log is closed only after the promises that listeners add. */
  closing: [Promise<unknown>[]];
  /** The incidents to print for cron's mail; they are computed only if there is a listener. */
  incidents: [readonly PrintedIncident[]];
  /** An alert that a mail channel could not send. */
  unsent: [UnsentMail];
}

export type WorkerEvents = EventEmitter<WorkerEventMap>;

export function createWorkerEvents(): WorkerEvents {
  return new EventEmitter<WorkerEventMap>();
}
