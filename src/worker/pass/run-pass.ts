import { hasOwnTimes, mayBeLeftOut, type Tier } from '../../discovery/script.ts';
import type { KeptEnd } from '../../execution/result/result.ts';
import { findPause, resumeCommandOf, wordsOfPaused } from '../../queue/pauses.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { UsageError } from '../../system/base/errors.ts';
import { firstName, isExecName } from '../../system/base/exec-name.ts';
import {
  describeWorker,
  finishWorker,
  type Invocation,
  type StoreInvocation,
  type TierRequest,
} from '../invocation/invocation.ts';
import { ifLogAllows, reconcileIfSpooled, reportStoreFailure } from '../invocation/with-store.ts';
import type { PassJob } from '../loop/recorder.ts';
import type { WorkedPass } from '../loop/script-executor.ts';
import { type FirstStep, skipTier, takeTier, type WorkerRequest } from '../recovery/tier-lock.ts';
import type { Collector } from './collect-jobs.ts';
import type { Slots } from './slots.ts';

/** When and how the lock file was lost. */
interface Loss {
  readonly at: number;
  readonly detail: string;
}

/**
 * Runs one pass: takes the tier's lock, runs the jobs, and releases the lock. Records that the log cannot take go to
 * the spool.
 *
 * @returns null if it was skipped: the tier is paused, or another worker has it
 */
export async function runPass(call: StoreInvocation, request: TierRequest): Promise<readonly KeptEnd[] | null> {
  return await withPings(call, request, () => runUnpinged(call, request));
}

/** Informs services that notice silence, if a tier or one of its scripts names one. */
export async function withPings(
  call: Invocation,
  request: TierRequest,
  run: () => Promise<readonly KeptEnd[] | null>,
): Promise<readonly KeptEnd[] | null> {
  const { name, scripts } = request.tier;
  const ofTier = call.runner.settings.tiers[name]?.ping;
  if (ofTier === undefined && scripts.every(({ options }) => options.ping === undefined)) return await run();
  const { pingAround } = await import('../invocation/ping-pass.ts');
  return await pingAround(call, request, run);
}

async function runUnpinged(call: StoreInvocation, request: TierRequest): Promise<readonly KeptEnd[] | null> {
  const worker = describeWorker(call, request);
  let isBegun = false;
  const begin = (): void => {
    isBegun = true;
  };
  try {
    return await takeAndWork(call, request, worker, begin);
  } catch (error) {
    // Not after the first script has started: from then on each record finds its own way.
    if (isBegun || error instanceof UsageError || request.kind === 'backlog') throw error;
    call.spooledTiers.add(request.tier.name);
    const { runWithoutLog } = await import('./run-without-store.ts');
    return await runWithoutLog(call, request, reportStoreFailure(call, error), worker);
  }
}

async function takeAndWork(
  call: StoreInvocation,
  request: TierRequest,
  worker: WorkerRequest,
  begin: () => void,
): Promise<readonly KeptEnd[] | null> {
  const { store } = call;
  const { tier } = worker;
  const pauses = await store.pauses.inForce(worker.startedAt);
  const isNamed = request.kind === 'script' && !isExecName(tier);
  const pause = isNamed ? null : findPause(pauses, firstName(tier));
  if (pause !== null) {
    await skipTier(store, worker, 'paused', describePause(pause, 'was'));
    return reportSkipped(call, tier, describePause(pause, 'is'), true);
  }
  const asked = { request, pauses, worker };
  const losses: Loss[] = [];
  const onCompromised = (reason: string): void => {
    losses.push({ at: call.runner.now(), detail: reason });
    call.stop.startNothing(`the lock of ${tier} was lost: ${reason}`);
  };
  const lock = await takeTier(store, call.runner.state, worker, onCompromised, () => prepare(call, asked));
  if (!lock.held) {
    await queueForOthers(call, asked);
    return reportSkipped(call, tier, lock.reason);
  }
  const { workerId } = lock;
  call.heartbeat?.begin(workerId);
  const holder = { ...asked, workerId, begin };
  const holding = holdTier(call, holder, lock.begun, losses);
  // Release the slot before the lock file: a worker on another host is visible only by its file.
  return await holding.finally(lock.release);
}

/** In a fleet all machines share the slot: a busy machine lets the others begin with it. */
async function queueForOthers(call: StoreInvocation, { request, pauses, worker }: Asked): Promise<void> {
  const { store, orphans, trigger } = call;
  if (store.fleet === null || request.kind !== 'tier' || trigger === 'manual') return;
  const { queueScripts } = await import('./collect-jobs.ts');
  const { scheduledFor, startedAt: at } = worker;
  const slots = await findSlots(call, { request, pauses, worker });
  await queueScripts({ call, session: store, request, pauses, orphans, scheduledFor, slots, at });
}

/** A worker that asks for its tier. */
interface Asked extends Pick<Collector, 'request' | 'pauses'> {
  readonly worker: WorkerRequest;
}

/** A worker that has its tier. */
interface Holder extends Asked {
  readonly workerId: number;
  /** Call it before the first script starts. */
  readonly begin: () => void;
}

async function holdTier(
  call: StoreInvocation,
  holder: Holder,
  begun: Begun,
  losses: readonly Loss[],
): Promise<readonly KeptEnd[]> {
  const { store } = call;
  const { worker, workerId } = holder;
  const { tier } = worker;
  const jobs = 'jobs' in begun ? begun.jobs : await begun.collect({ ...holder, ...begun.seen, call, session: store });
  // The worker's number names the files of its runs, so a power loss must not give the number to another worker.
  if (jobs.length > 0) await store.sync();
  reportStart(call, holder, jobs);
  holder.begin();
  const { ends, isFinished } = await workOn(call, holder, jobs);
  await ifLogAllows(call, async () => {
    for (const loss of losses) {
      await store.events.record([{ ...loss, event: 'lock-lost', workerId }]);
    }
    if (!isFinished) await finishWorker(call, store, workerId);
  });
  call.events.emit('pass-finished', { tier });
  return ends;
}

/** Facts that are read before the tier's jobs. */
type Seen = Pick<Collector, 'slots' | 'orphans' | 'scheduledFor' | 'at'>;

/** The jobs of the pass. In a fleet they are collected later, once the worker's row is in the log. */
type Begun =
  | { readonly jobs: readonly PassJob[] }
  | { readonly seen: Seen; readonly collect: (collector: Collector) => Promise<readonly PassJob[]> };

/** Reads the data for the first step. From now on this machine has no other worker of this tier. */
async function prepare(call: StoreInvocation, asked: Asked): Promise<FirstStep<Begun>> {
  const { store } = call;
  const { scheduledFor, startedAt: at } = asked.worker;
  const orphans = (await reconcileIfSpooled(call, store)) ?? call.orphans;
  const seen = { slots: await findSlots(call, asked), orphans, scheduledFor, at };
  if (await isEmpty(call, asked.request.tier)) return async () => ({ jobs: [] });
  const { collectJobs: collect } = await import('./collect-jobs.ts');
  return async (session, workerId) =>
    store.fleet === null ? { jobs: await collect({ ...asked, ...seen, call, workerId, session }) } : { seen, collect };
}

/** An empty tier is called every few minutes, and does not load the code that runs scripts. */
async function isEmpty({ store }: StoreInvocation, { name, scripts }: Tier): Promise<boolean> {
  return store.fleet === null && scripts.length === 0 && (await store.scriptJobs.open(name)).length === 0;
}

/** A script started by hand runs whatever its times. The code that reads times is loaded only if there are any. */
async function findSlots(call: StoreInvocation, { request, pauses, worker }: Asked): Promise<Slots | null> {
  const { kind, tier, scripts } = request;
  if (kind !== 'tier' || !scripts.some((script) => hasOwnTimes(script) || mayBeLeftOut(script))) return null;
  const { readSlots, tellWaiting } = await import('./slots.ts');
  const { startedAt: at } = worker;
  const slots = await readSlots(call, { tier, scripts, pauses, at });
  if (call.trigger === 'manual') await tellWaiting(call, scripts, slots, at);
  return slots;
}

async function workOn(
  call: StoreInvocation,
  { worker, workerId }: Holder,
  jobs: readonly PassJob[],
): Promise<WorkedPass> {
  if (jobs.length === 0) return { ends: [], isFinished: false };
  const { workPass } = await import('../loop/script-executor.ts');
  return await workPass(call, { worker, workerId, jobs });
}

function reportStart({ events, store }: StoreInvocation, { request }: Holder, jobs: readonly PassJob[]): void {
  const { tier } = request;
  const scripts = jobs.map(({ script }) => script.name);
  const usualDurationMs = async (name: string): Promise<number | null> =>
    (await import('../loop/script-executor.ts')).askUsualDuration(store, name);
  events.emit('pass-started', { tier: tier.name, scripts, hasScripts: tier.scripts.length > 0, usualDurationMs });
  for (const warning of jobs.flatMap(({ script }) => script.warnings)) {
    events.emit('warning', warning);
  }
}

function reportSkipped({ events }: Invocation, tier: string, reason: string, isPaused = false): null {
  events.emit('pass-skipped', { tier, reason, ...(isPaused && { isPaused }) });
  return null;
}

/** "hourly is paused until 2026-11-01T10:00:00.000Z"; in the log, which is read later, it "was" paused. */
function describePause({ name, until }: Pause, verb: 'is' | 'was'): string {
  const end = until === null ? `until \`${resumeCommandOf(name)}\`` : `until ${new Date(until).toISOString()}`;
  return `${wordsOfPaused(name)} ${verb} paused ${end}`;
}
