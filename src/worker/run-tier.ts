import type { Settings } from '../config/settings.ts';
import { createStateFolder } from '../config/state-folder.ts';
import type { Script, Tier } from '../discovery/script.ts';
import { periodStart } from '../discovery/tier-period.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { type TierLock, takeTier } from '../lock/take-tier.ts';
import type { WorkerRequest } from '../lock/tier-slot.ts';
import { identifyProcess } from '../process/process-identity.ts';
import { enqueueScripts } from '../queue/enqueue-scripts.ts';
import { rescueJobs } from '../queue/rescue-jobs.ts';
import { recordActivity } from '../store/activity.ts';
import { type Database, openStore, type Store } from '../store/open-store.ts';
import type { WorkerKind } from '../store/schema.ts';
import { finishWorker } from './finish-worker.ts';
import type { Pass } from './pass.ts';
import { pruneLog } from './prune-log.ts';
import type { Runner } from './runner.ts';
import type { StopRequest } from './stop-request.ts';
import { workOff } from './work-off.ts';
import type { WorkerEvents } from './worker-events.ts';

/** What is to be run: a whole tier, or one script of it by hand. */
export interface TierRequest {
  readonly kind: WorkerKind;
  readonly tier: Tier;
  readonly scripts: readonly Script[];
}

/** How a pass went; null ends: it was skipped, another worker has the tier. */
export interface PassSummary {
  readonly ends: readonly RunEnd[] | null;
}

/** Takes the tier's lock, runs the scripts, records everything. Throws nothing about a script. */
export async function runTier(
  runner: Runner,
  request: TierRequest,
  stop: StopRequest,
  events: WorkerEvents,
): Promise<PassSummary> {
  createStateFolder(runner.state);
  const store = await openStore(runner.state);
  try {
    return await takeAndRun({ runner, store, request, stop, events });
  } finally {
    await store.close();
  }
}

interface Work {
  readonly runner: Runner;
  readonly store: Store;
  readonly request: TierRequest;
  readonly stop: StopRequest;
  readonly events: WorkerEvents;
}

async function takeAndRun(work: Work): Promise<PassSummary> {
  const { runner, store, request, stop, events } = work;
  const worker = describeWorker(runner, request);
  const losses: string[] = [];
  const lock = await takeTier(store, runner.state, worker, (reason) => {
    losses.push(reason);
    stop.startNothing(`the lock of ${worker.tier} was lost: ${reason}`);
  });
  if (!lock.held) {
    events.emit('pass-skipped', { tier: worker.tier, reason: lock.reason });
    return { ends: null };
  }
  try {
    const ends = await runPass(work, lock, worker);
    await recordLosses(store.db, lock.workerId, runner.now(), losses);
    return { ends };
  } finally {
    await lock.release();
  }
}

async function runPass(work: Work, lock: TierLock, worker: WorkerRequest): Promise<RunEnd[]> {
  const { runner, store, request, stop, events } = work;
  const { workerId } = lock;
  const tier = request.tier.name;
  const pass: Pass = { runner, store, workerId, tier, stop, events };
  const { scheduledFor, startedAt: at } = worker;
  await rescueJobs(store.db, lock.takenOver, { workerId, tier, at });
  const jobs = await enqueueScripts(store.db, request.scripts, { workerId, scheduledFor, at });
  events.emit('pass-started', { tier, scripts: request.scripts.map(({ name }) => name) });
  const ends = await workOff(pass, jobs, concurrencyOf(runner.settings, tier));
  await pruneLog(pass);
  await finishWorker(pass);
  events.emit('pass-finished');
  return ends;
}

function concurrencyOf(settings: Settings, tier: string): number {
  return settings.tiers[tier]?.concurrency ?? settings.concurrency;
}

async function recordLosses(
  db: Database,
  workerId: number,
  at: number,
  losses: readonly string[],
): Promise<void> {
  for (const detail of losses) {
    await recordActivity(db, { at, event: 'lock-compromised', workerId, detail });
  }
}

function describeWorker(runner: Runner, { kind, tier }: TierRequest): WorkerRequest {
  const startedAt = runner.now();
  return {
    kind,
    tier: tier.name,
    self: identifyProcess(process.pid),
    scheduledFor: periodStart(tier.name, startedAt),
    startedAt,
    runnerVersion: runner.version,
  };
}
