import { createStateFolder } from '../config/state-folder.ts';
import { discover } from '../discovery/discover.ts';
import type { Script, Tier } from '../discovery/script.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { countCrashedPasses, selectLastPass, selectScriptsDone } from '../queue/last-pass.ts';
import { openStore, type Store } from '../store/open-store.ts';
import { describeWorker } from './describe-worker.ts';
import { judgeDue } from './judge-due.ts';
import type { Call } from './pass.ts';
import { runLeftovers } from './run-leftovers.ts';
import { runPass } from './run-pass.ts';
import type { CallSummary } from './run-tier.ts';
import { type MissedWorker, skipMissed } from './skip-missed.ts';

/** Runs each tier that is due, then whatever else is. */
export async function runDue(call: Call): Promise<CallSummary> {
  const { runner, stop } = call;
  createStateFolder(runner.state);
  const store = await openStore(runner.state);
  try {
    // First in line is what earlier calls have deferred.
    const ends = [...(await runLeftovers(call, store))];
    const { tiers } = await discover(runner.root, runner.settings);
    for (const tier of tiers) {
      if (stop.reason !== null) break;
      ends.push(...(await runIfDue(call, store, tier)));
    }
    ends.push(...(await runLeftovers(call, store)));
    return { ends };
  } finally {
    await store.close();
  }
}

async function runIfDue(call: Call, store: Store, tier: Tier): Promise<readonly RunEnd[]> {
  const worker = describeWorker(call, { kind: 'tier', tier });
  const { scheduledFor, startedAt: at } = worker;
  if (scheduledFor === null) return [];
  const last = await selectLastPass(store.db, tier.name);
  const crashes = await countCrashedPasses(store.db, tier.name, scheduledFor);
  const catchUp = call.runner.settings.tiers[tier.name]?.catchUp ?? 'once';
  const verdict = judgeDue({ start: scheduledFor, at, last, crashes, catchUp });
  if (verdict === 'missed') await tellMissed(call, store, { ...worker, scheduledFor });
  if (verdict !== 'due') return [];
  const scripts = crashes === 0 ? tier.scripts : await withoutDone(store, tier, scheduledFor);
  return (await runPass(call, store, { kind: 'tier', tier, scripts })) ?? [];
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
