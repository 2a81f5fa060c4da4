import prettyMilliseconds from 'pretty-ms';
import { discover } from '../../discovery/discover.ts';
import { hasOwnTimes, mayBeLeftOut, type Script, type Tier } from '../../discovery/script.ts';
import type { KeptEnd } from '../../execution/result/result.ts';
import { findPause } from '../../queue/pauses.ts';
import {
  countCrashedPasses,
  decideDue,
  dueChore,
  isMissRecorded,
  type LastPass,
  noteSeen,
  readLastPass,
} from '../../schedule/due.ts';
import { tierPeriodMs } from '../../schedule/period.ts';
import type { Store } from '../../store/store.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { UsageError } from '../../system/base/errors.ts';
import { type CallSummary, describeWorker, type Invocation, type StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows, reportStoreFailure, withStore } from '../invocation/with-store.ts';
import { skipTier, type WorkerRequest } from '../recovery/tier-lock.ts';
import { runPass, withPings } from './run-pass.ts';
import { runBacklog, seeBoot, serveQueue } from './run-tier.ts';

/** Runs each due tier, then everything else that is due. */
export async function runDue(call: Invocation): Promise<CallSummary> {
  const { tiers, unread } = await discover(call.runner.root, call.runner.settings);
  const missing = unread.filter(({ tier }) => tierPeriodMs(tier) !== null);
  for (const { reason } of missing) call.events.emit('problem', reason);
  const summary = await withStore(
    call,
    (logged) => runDueTiers(logged, tiers),
    (reason) => runDueTiersWithoutLog(call, tiers, reason),
  );
  return { ...summary, isBroken: summary.isBroken === true || missing.length > 0 };
}

async function runDueTiers(call: StoreInvocation, tiers: readonly Tier[]): Promise<CallSummary> {
  const ends: KeptEnd[] = [];
  const collect = (run: () => Promise<readonly KeptEnd[]>) =>
    ifLogAllows(call, async () => ends.push(...(await run())));
  await ifLogAllows(call, () => seeBoot(call));
  // Jobs deferred by earlier calls come first.
  await collect(() => runBacklog(call));
  for (const tier of tiers) {
    if (call.stop.reason === null) await collect(() => runIfDue(call, tier));
  }
  await collect(() => runBacklog(call));
  await collect(() => serveQueue(call));
  return { ends };
}

async function runIfDue(call: StoreInvocation, tier: Tier): Promise<readonly KeptEnd[]> {
  let scripts: readonly Script[] | null;
  try {
    scripts = await findDue(call, tier);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    call.spooledTiers.add(tier.name);
    const { ends } = await runDueTiersWithoutLog(call, [tier], reportStoreFailure(call, error));
    return ends ?? [];
  }
  if (scripts === null) return [];
  const at = call.runner.now();
  const ends = await runPass(call, { kind: 'tier', tier, scripts, isDue: true });
  if (ends !== null) await call.store.chores.setDone(dueChore(tier.name), at);
  return ends ?? [];
}

/**
 * Null: nothing runs, not even an empty pass. Each pass includes the scripts with their own times; they have a pass for
 * themselves when the time of one has come.
 */
async function findDue(call: StoreInvocation, tier: Tier): Promise<readonly Script[] | null> {
  const { store } = call;
  const worker = describeWorker(call, { kind: 'tier', tier });
  const pauses = await store.pauses.inForce(worker.startedAt);
  // `status` shows a pause; a row for each call would only fill the log.
  if (findPause(pauses, tier.name) !== null) return null;
  const own = tier.scripts.filter(hasOwnTimes);
  if (own.length === 0) return await findDueByPeriod(call, tier, worker);
  const others = tier.scripts.filter((script) => !hasOwnTimes(script));
  const due = await findDueByPeriod(call, { ...tier, scripts: others }, worker);
  if (due !== null) return tier.scripts.filter((script) => hasOwnTimes(script) || due.includes(script));
  const isHeld = store.fleet === null && (await readLastPass(store, tier.name))?.state === 'running';
  if (isHeld) return null;
  const { readSlots } = await import('./slots.ts');
  const slots = await readSlots(call, { tier, scripts: own, pauses, at: worker.startedAt });
  return [...slots.values()].some((slot) => slot !== null) ? own : null;
}

async function findDueByPeriod(
  call: StoreInvocation,
  tier: Tier,
  worker: WorkerRequest,
): Promise<readonly Script[] | null> {
  const { store } = call;
  const { scheduledFor, startedAt: at } = worker;
  if (scheduledFor === null) return null;
  const last = await readLastPass(store, tier.name);
  const seenAt = last === null ? await noteSeen(store, tier.name, at) : at;
  if (store.fleet !== null && tier.scripts.length > 0) return await findDueInFleet(call, tier, worker, last, seenAt);
  const crashes = await countCrashedPasses(store, tier.name, scheduledFor);
  const catchUp = call.runner.settings.tiers[tier.name]?.catchUp ?? 'once';
  const decision = decideDue({ start: scheduledFor, at, last, seenAt, crashes, catchUp });
  if (decision === 'missed') await recordMissed(call, store, { ...worker, scheduledFor });
  if (decision !== 'due') return null;
  return crashes === 0 ? tier.scripts : await withoutDone(store, tier, scheduledFor);
}

/** In a fleet any machine may have called the tier: the scripts that were not queued for the slot yet count. */
async function findDueInFleet(
  call: StoreInvocation,
  tier: Tier,
  worker: WorkerRequest,
  last: LastPass | null,
  seenAt: number,
): Promise<readonly Script[] | null> {
  const { store, runner } = call;
  const start = worker.scheduledFor as number;
  const { isNew } = await import('./collect-jobs.ts');
  const rows = await store.scriptJobs.ofTier(tier.name);
  const ofSlot = tier.scripts.filter((script) => isNew(rows, script, start));
  const scripts = ofSlot.some(mayBeLeftOut) ? await ofToday(ofSlot, worker.startedAt) : ofSlot;
  if (scripts.length === 0) return null;
  const catchUp = runner.settings.tiers[tier.name]?.catchUp ?? 'once';
  const before = last && ({ state: 'finished', startedAt: Math.min(last.startedAt, start - 1) } as const);
  const decision = decideDue({ start, at: worker.startedAt, last: before, seenAt, crashes: 0, catchUp });
  if (decision === 'missed') await recordMissed(call, store, { ...worker, scheduledFor: start });
  return decision === 'due' ? scripts : null;
}

async function ofToday(scripts: readonly Script[], at: number): Promise<readonly Script[]> {
  const { withoutLeftOut } = await import('./slots.ts');
  return await withoutLeftOut(scripts, at - clockOffsetMs());
}

/**
 * Continues a pass that died where it stopped: scripts that are done in this period, in whatever way, do not run again.
 * A crash without a policy for it does not count as done: the pass died, not the script.
 */
async function withoutDone(store: Store, tier: Tier, start: number): Promise<readonly Script[]> {
  const done = new Set<string>();
  for (const job of await store.scriptJobs.ofTier(tier.name)) {
    const isOfPeriod = job.scheduled_for === start && (job.started_at ?? 0) >= start;
    if (!isOfPeriod || job.finished_at === null) continue;
    const { options } = tier.scripts.find(({ name }) => name === job.name) ?? {};
    const mayCrash = options?.onCrash !== undefined || (options?.retries ?? 0) > 0;
    const isCrash = !mayCrash && (await store.runs.lastOutcome(job.id)) === 'crashed';
    if (!isCrash) done.add(job.name);
  }
  return tier.scripts.filter(({ name }) => !done.has(name));
}

async function recordMissed({ events }: Invocation, store: Store, worker: MissedWorker): Promise<void> {
  const reason = await skipMissed(store, worker);
  if (reason !== null) events.emit('pass-skipped', { tier: worker.tier, reason });
}

async function runDueTiersWithoutLog(call: Invocation, tiers: readonly Tier[], reason: string): Promise<CallSummary> {
  const { findDueWithoutLog, leavesSome, runWithoutLog } = await import('./run-without-store.ts');
  const ends: KeptEnd[] = [];
  let isBroken = false;
  for (const { tier, scripts } of await findDueWithoutLog(call, tiers)) {
    const request = { kind: 'tier' as const, tier, scripts, isDue: true as const };
    isBroken ||= leavesSome(request);
    const run = () => runWithoutLog(call, request, reason);
    if (call.stop.reason === null) ends.push(...((await withPings(call, request, run)) ?? []));
  }
  return { ends, isBroken };
}

/** A pass that would have been due. */
interface MissedWorker extends WorkerRequest {
  readonly scheduledFor: number;
}

/** Records once for each period that a pass was missed and is not made up for. */
async function skipMissed(store: Store, worker: MissedWorker): Promise<string | null> {
  const { tier, scheduledFor, startedAt } = worker;
  if (await isMissRecorded(store, tier, scheduledFor)) return null;
  const lateness = prettyMilliseconds(startedAt - scheduledFor, { compact: true });
  const reason = `it was missed by ${lateness}, and its tier's catchUp is 'skip'`;
  await skipTier(store, worker, 'missed', reason);
  return reason;
}
