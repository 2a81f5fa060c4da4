import { discover } from '../discovery/discover.ts';
import type { Script, Tier } from '../discovery/script.ts';
import { tierPeriodMs } from '../discovery/tier-period.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { countCrashedPasses, selectLastPass, selectScriptsDone } from '../queue/last-pass.ts';
import { findPause, selectPauses } from '../queue/pauses.ts';
import type { Store } from '../store/open-store.ts';
import { describeWorker } from './describe-worker.ts';
import { judgeDue } from './judge-due.ts';
import type { Call, LoggedCall } from './pass.ts';
import { runLeftovers } from './run-leftovers.ts';
import { runPass } from './run-pass.ts';
import type { CallSummary } from './run-tier.ts';
import { serveQueue } from './serve-queue.ts';
import { type MissedWorker, skipMissed } from './skip-missed.ts';
import { ifLogAllows } from './store-trouble.ts';
import { withLog } from './with-log.ts';

/** Runs each tier that is due, then whatever else is. */
export async function runDue(call: Call): Promise<CallSummary> {
  const { tiers, unread } = await discover(call.runner.root, call.runner.settings);
  const missing = unread.filter(({ tier }) => tierPeriodMs(tier) !== null);
  for (const { reason } of missing) call.events.emit('trouble', reason);
  const summary = await withLog(
    call,
    (logged) => runDueTiers(logged, tiers),
    (reason) => runDueTiersWithoutLog(call, tiers, reason),
  );
  return { ...summary, isBroken: missing.length > 0 };
}

async function runDueTiers(call: LoggedCall, tiers: readonly Tier[]): Promise<CallSummary> {
  const ends: RunEnd[] = [];
  const collect = (run: () => Promise<readonly RunEnd[]>) =>
    ifLogAllows(call, async () => ends.push(...(await run())));
  // First in line is what earlier calls have deferred.
  await collect(() => runLeftovers(call));
  for (const tier of tiers) {
    if (call.stop.reason === null) await collect(() => runIfDue(call, tier));
  }
  await collect(() => runLeftovers(call));
  await collect(() => serveQueue(call));
  return { ends };
}

async function runIfDue(call: LoggedCall, tier: Tier): Promise<readonly RunEnd[]> {
  const { store } = call;
  const worker = describeWorker(call, { kind: 'tier', tier });
  const { scheduledFor, startedAt: at } = worker;
  if (scheduledFor === null) return [];
  // `status` shows a pause; a row for each call would only fill the log.
  if (findPause(await selectPauses(store.db, at), tier.name) !== null) return [];
  const last = await selectLastPass(store.db, tier.name);
  const crashes = await countCrashedPasses(store.db, tier.name, scheduledFor);
  const catchUp = call.runner.settings.tiers[tier.name]?.catchUp ?? 'once';
  const verdict = judgeDue({ start: scheduledFor, at, last, crashes, catchUp });
  if (verdict === 'missed') await tellMissed(call, store, { ...worker, scheduledFor });
  if (verdict !== 'due') return [];
  const scripts = crashes === 0 ? tier.scripts : await withoutDone(store, tier, scheduledFor);
  return (await runPass(call, { kind: 'tier', tier, scripts })) ?? [];
}

/** A pass that died is taken up where it stopped: what it had ended is not run again. */
async function withoutDone({ db }: Store, tier: Tier, start: number): Promise<readonly Script[]> {
  const done = new Set(await selectScriptsDone(db, tier.name, start));
  return tier.scripts.filter(({ name }) => !done.has(name));
}

async function tellMissed({ events }: Call, store: Store, worker: MissedWorker): Promise<void> {
  const reason = await skipMissed(store, worker);
  if (reason !== null) events.emit('pass-skipped', { tier: worker.tier, reason });
}

async function runDueTiersWithoutLog(
  call: Call,
  tiers: readonly Tier[],
  reason: string,
): Promise<CallSummary> {
  const { findDueWithoutLog } = await import('./due-without-log.ts');
  const { runWithoutLog } = await import('./run-without-log.ts');
  const ends: RunEnd[] = [];
  for (const tier of findDueWithoutLog(call, tiers)) {
    const request = { kind: 'tier' as const, tier, scripts: tier.scripts };
    if (call.stop.reason === null)
      ends.push(...((await runWithoutLog(call, request, reason)) ?? []));
  }
  return { ends };
}
