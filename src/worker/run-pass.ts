import type { RunEnd } from '../execution/run-end.ts';
import { takeTier } from '../lock/take-tier.ts';
import { skipTier, type WorkerRequest } from '../lock/tier-slot.ts';
import { summarizeOpenJobs } from '../queue/open-jobs.ts';
import { findPause, selectPauses } from '../queue/pauses.ts';
import { mayHaveLost, type OpenRun } from '../queue/rescue-jobs.ts';
import { recordActivity } from '../store/activity.ts';
import type { Store } from '../store/open-store.ts';
import { type Collector, collectJobs } from './collect-jobs.ts';
import { describePause } from './describe-pause.ts';
import { describeWorker } from './describe-worker.ts';
import { finishWorker } from './finish-worker.ts';
import type { PassJob } from './journal.ts';
import type { Call } from './pass.ts';
import type { TierRequest } from './tier-request.ts';

/** When and how the lock file was lost. */
interface Loss {
  readonly at: number;
  readonly detail: string;
}

/**
 * One pass: takes the tier's lock, rescues what the dead left, runs what is to be run, lets go.
 *
 * @returns null when it was skipped: the tier is paused, or another worker has it
 */
export async function runPass(
  call: Call,
  store: Store,
  request: TierRequest,
): Promise<readonly RunEnd[] | null> {
  const { runner, stop } = call;
  const worker = describeWorker(call, request);
  const pauses = await selectPauses(store.db, worker.startedAt);
  const pause = request.kind === 'script' ? null : findPause(pauses, worker.tier);
  if (pause !== null) {
    const reason = describePause(pause);
    await skipTier(store.db, worker, reason);
    return tellSkipped(call, worker.tier, reason);
  }
  const losses: Loss[] = [];
  const lock = await takeTier(store, runner.state, worker, (reason) => {
    losses.push({ at: runner.now(), detail: reason });
    stop.startNothing(`the lock of ${worker.tier} was lost: ${reason}`);
  });
  if (!lock.held) return tellSkipped(call, worker.tier, lock.reason);
  const holder: Holder = { store, request, worker, pauses, workerId: lock.workerId };
  // The lock file goes before the slot: who has the slot must not find a lock that is just going.
  const ends = await work(call, holder).finally(lock.release);
  await recordLosses(store, lock.workerId, losses);
  await finishWorker(call, store.db, lock.workerId);
  call.events.emit('pass-finished', { tier: worker.tier });
  return ends;
}

/** A worker that has its tier. */
interface Holder extends Pick<Collector, 'request' | 'pauses' | 'workerId'> {
  readonly store: Store;
  readonly worker: WorkerRequest;
}

async function work(call: Call, holder: Holder): Promise<readonly RunEnd[]> {
  const { store, worker, workerId } = holder;
  const { tier, scheduledFor, startedAt: at } = worker;
  const orphans = (await mayHaveLost(store.db, workerId)) ? await rescue(call, holder) : [];
  const open = await summarizeOpenJobs(store.db);
  const hasOpenJobs = open.some((each) => each.tier === tier);
  const { db } = store;
  const { events } = call;
  const found = { db, events, scheduledFor, at, hasOpenJobs, orphans };
  const jobs = await collectJobs({ ...holder, ...found });
  tellStart(call, holder, jobs);
  // An empty tier is looked at every few minutes: it loads nothing of what runs scripts.
  if (jobs.length === 0) return [];
  const { workPass } = await import('./work-pass.ts');
  return await workPass({ ...call, tier }, store, workerId, jobs);
}

async function rescue(
  { runner }: Call,
  { store, worker, workerId }: Holder,
): Promise<readonly OpenRun[]> {
  const { reconcile } = await import('./reconcile.ts');
  const { alive } = await reconcile(runner, store.db, { workerId, at: worker.startedAt });
  return alive;
}

function tellStart({ events }: Call, { request }: Holder, jobs: readonly PassJob[]): void {
  const { tier } = request;
  const scripts = jobs.map(({ script }) => script.name);
  events.emit('pass-started', { tier: tier.name, scripts, hasScripts: tier.scripts.length > 0 });
  for (const warning of jobs.flatMap(({ script }) => script.warnings)) {
    events.emit('warning', warning);
  }
}

function tellSkipped({ events }: Call, tier: string, reason: string): null {
  events.emit('pass-skipped', { tier, reason });
  return null;
}

async function recordLosses(
  { db }: Store,
  workerId: number,
  losses: readonly Loss[],
): Promise<void> {
  for (const loss of losses) {
    await recordActivity(db, { ...loss, event: 'lock-compromised', workerId });
  }
}
