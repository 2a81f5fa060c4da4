import prettyMilliseconds from 'pretty-ms';
import { discover } from '../../discovery/discover.ts';
import type { Script, Tier } from '../../discovery/script.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { findPause } from '../../queue/pauses.ts';
import { countCrashedPasses, decideDue, isMissRecorded, readLastPass } from '../../schedule/due.ts';
import { tierPeriodMs } from '../../schedule/period.ts';
import type { Store } from '../../store/contract.ts';
import { UsageError } from '../../system/base/errors.ts';
import { describeWorker, type Invocation, type StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows, reportStoreFailure, withStore } from '../invocation/with-store.ts';
import { skipTier, type WorkerRequest } from '../lock/registry.ts';
import { runBacklog } from './run-backlog.ts';
import { runPass, withPings } from './run-pass.ts';
import { type CallSummary, serveQueue } from './run-tier.ts';

/** Runs each tier that is due, then whatever else is. */
export async function runDue(call: Invocation): Promise<CallSummary> {
  const { tiers, unread } = await discover(call.runner.root, call.runner.settings);
  const missing = unread.filter(({ tier }) => tierPeriodMs(tier) !== null);
  for (const { reason } of missing) call.events.emit('problem', reason);
  const summary = await withStore(
    call,
    (logged) => runDueTiers(logged, tiers),
    (reason) => runDueTiersWithoutLog(call, tiers, reason),
  );
  return { ...summary, isBroken: missing.length > 0 };
}

async function runDueTiers(call: StoreInvocation, tiers: readonly Tier[]): Promise<CallSummary> {
  const ends: RunEnd[] = [];
  const collect = (run: () => Promise<readonly RunEnd[]>) => ifLogAllows(call, async () => ends.push(...(await run())));
  // First in line is what earlier calls have deferred.
  await collect(() => runBacklog(call));
  for (const tier of tiers) {
    if (call.stop.reason === null) await collect(() => runIfDue(call, tier));
  }
  await collect(() => runBacklog(call));
  await collect(() => serveQueue(call));
  return { ends };
}

async function runIfDue(call: StoreInvocation, tier: Tier): Promise<readonly RunEnd[]> {
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
  return (await runPass(call, { kind: 'tier', tier, scripts })) ?? [];
}

/** Null: nothing is to be run, not even an empty pass. */
async function findDue(call: StoreInvocation, tier: Tier): Promise<readonly Script[] | null> {
  const { store } = call;
  const worker = describeWorker(call, { kind: 'tier', tier });
  const { scheduledFor, startedAt: at } = worker;
  if (scheduledFor === null) return null;
  // `status` shows a pause; a row for each call would only fill the log.
  if (findPause(await store.pauses.inForce(at), tier.name) !== null) return null;
  const last = await readLastPass(store, tier.name);
  const crashes = await countCrashedPasses(store, tier.name, scheduledFor);
  const catchUp = call.runner.settings.tiers[tier.name]?.catchUp ?? 'once';
  const decision = decideDue({ start: scheduledFor, at, last, crashes, catchUp });
  if (decision === 'missed') await recordMissed(call, store, { ...worker, scheduledFor });
  if (decision !== 'due') return null;
  return crashes === 0 ? tier.scripts : await withoutDone(store, tier, scheduledFor);
}

/**
 * A pass that died is taken up where it stopped: what is done with in this period, whichever way, is not run
 * again. A crash that nothing was to follow is not done with: it was the pass that died, not the script.
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
  const { findDueWithoutLog, runWithoutLog } = await import('./run-without-store.ts');
  const ends: RunEnd[] = [];
  for (const tier of findDueWithoutLog(call, tiers)) {
    const request = { kind: 'tier' as const, tier, scripts: tier.scripts };
    const run = () => runWithoutLog(call, request, reason);
    if (call.stop.reason === null) ends.push(...((await withPings(call, request, run)) ?? []));
  }
  return { ends };
}

/** A pass that would have been due. */
interface MissedWorker extends WorkerRequest {
  readonly scheduledFor: number;
}

/** Records, once for each period, that a pass was missed and is not made up for. */
async function skipMissed(store: Store, worker: MissedWorker): Promise<string | null> {
  const { tier, scheduledFor, startedAt } = worker;
  if (await isMissRecorded(store, tier, scheduledFor)) return null;
  const lateness = prettyMilliseconds(startedAt - scheduledFor, { compact: true });
  const reason = `it was missed by ${lateness}, and its tier's catchUp is 'skip'`;
  await skipTier(store, worker, 'missed', reason);
  return reason;
}
