import { createStateFolder } from '../config/state-folder.ts';
import type { Script, Tier } from '../discovery/script.ts';
import { periodStart } from '../discovery/tier-period.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { takeTier } from '../lock/take-tier.ts';
import type { WorkerRequest } from '../lock/tier-slot.ts';
import { identifyProcess } from '../process/process-identity.ts';
import { cancelJobs } from '../queue/cancel-jobs.ts';
import { enqueueScripts, type QueuedJob } from '../queue/enqueue-scripts.ts';
import { hasOpenJobs, type LostRun } from '../queue/rescue-jobs.ts';
import { recordActivity } from '../store/activity.ts';
import { openStore, type Store } from '../store/open-store.ts';
import type { WorkerKind } from '../store/schema.ts';
import { finishWorker } from './finish-worker.ts';
import type { Pass } from './pass.ts';
import type { Runner } from './runner.ts';
import type { StopRequest } from './stop-request.ts';
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

/** When and how the lock file was lost. */
interface Loss {
  readonly at: number;
  readonly detail: string;
}

async function takeAndRun(work: Work): Promise<PassSummary> {
  const { runner, store, request, stop, events } = work;
  const worker = describeWorker(runner, request);
  const losses: Loss[] = [];
  const lock = await takeTier(store, runner.state, worker, (reason) => {
    losses.push({ at: runner.now(), detail: reason });
    stop.startNothing(`the lock of ${worker.tier} was lost: ${reason}`);
  });
  if (!lock.held) {
    events.emit('pass-skipped', { tier: worker.tier, reason: lock.reason });
    return { ends: null };
  }
  const pass: Pass = { runner, store, workerId: lock.workerId, tier: worker.tier, stop, events };
  // The lock file goes before the slot: who has the slot must not find a lock that is just going.
  const ends = await runPass(pass, request, worker).finally(lock.release);
  await recordLosses(pass, losses);
  await finishWorker(pass);
  events.emit('pass-finished');
  return { ends };
}

async function runPass(
  pass: Pass,
  request: TierRequest,
  { scheduledFor, startedAt: at }: WorkerRequest,
): Promise<RunEnd[]> {
  const { store, workerId, tier, events } = pass;
  const orphans = await rescueOpenJobs(pass, request.tier.scripts, at);
  const queued = await enqueueScripts(store.db, request.scripts, { workerId, scheduledFor, at });
  const jobs = await leaveOrphans(pass, queued, orphans);
  events.emit('pass-started', { tier, scripts: request.scripts.map(({ name }) => name) });
  for (const warning of request.scripts.flatMap(({ warnings }) => warnings)) {
    events.emit('warning', warning);
  }
  // An empty tier is looked at every few minutes: it loads nothing of what runs scripts.
  return jobs.length === 0 ? [] : (await import('./work-pass.ts')).workPass(pass, jobs);
}

async function rescueOpenJobs(
  pass: Pass,
  scripts: readonly Script[],
  at: number,
): Promise<readonly LostRun[]> {
  if (!(await hasOpenJobs(pass.store.db, pass.tier))) return [];
  return (await import('./rescue-pass.ts')).rescuePass(pass, scripts, at);
}

/** What still runs is not started a second time; the next pass that finds it ended records that. */
async function leaveOrphans(
  { store, runner, workerId, events }: Pass,
  queued: readonly QueuedJob[],
  orphans: readonly LostRun[],
): Promise<readonly QueuedJob[]> {
  for (const { script, pid, runner: dead } of orphans) {
    const reason = `${script} still runs (pid ${pid ?? 'unknown'}), left by a runner that died (${dead})`;
    const ids = queued.filter((job) => job.script.name === script).map(({ id }) => id);
    await cancelJobs(store.db, ids, { workerId, at: runner.now(), reason });
    events.emit('warning', reason);
  }
  const living = new Set(orphans.map(({ script }) => script));
  return queued.filter(({ script }) => !living.has(script.name));
}

async function recordLosses({ store, workerId }: Pass, losses: readonly Loss[]): Promise<void> {
  for (const loss of losses) {
    await recordActivity(store.db, { ...loss, event: 'lock-compromised', workerId });
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
