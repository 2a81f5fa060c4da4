import { UsageError } from '../../base/errors.ts';
import { discover } from '../../discovery/discover.ts';
import { tierNames } from '../../discovery/jobs-folder.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { cancelJobs, isDue, selectOpenJobs } from '../../queue/add/scripts.ts';
import { findPause, selectPauses } from '../../queue/pauses.ts';
import type { Database } from '../../store/store.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { runPass } from './run-pass.ts';

/**
 * Runs what is due in any tier besides its passes: retries whose time has come, and what a pass has
 * deferred or died before. A tier whose worker lives is left to it.
 */
export async function runLeftovers(call: StoreInvocation): Promise<readonly RunEnd[]> {
  const ends: RunEnd[] = [];
  for (let tiers = await findTiers(call); tiers.length > 0; ) {
    const ran = await runTiers(call, tiers);
    ends.push(...ran);
    tiers = ran.length === 0 ? [] : await findTiers(call);
  }
  return ends;
}

async function runTiers(call: StoreInvocation, tiers: readonly string[]): Promise<RunEnd[]> {
  const { root, settings } = call.runner;
  const ends: RunEnd[] = [];
  for (const name of tiers) {
    if (call.stop.reason !== null) break;
    const found = await discover(root, settings, { tier: name });
    for (const { reason } of found.unread) call.events.emit('trouble', reason);
    const [tier] = found.tiers;
    if (tier === undefined) continue;
    ends.push(...((await runPass(call, { kind: 'leftover', tier, scripts: [] })) ?? []));
  }
  return ends;
}

/** Tiers with something due that no worker has and nobody has paused. */
async function findTiers(call: StoreInvocation): Promise<readonly string[]> {
  const { runner, stop, spooledTiers, store } = call;
  const { db } = store;
  const at = runner.now();
  const open = await selectOpenJobs(db);
  if (stop.reason !== null || !open.some((job) => isDue(job, at))) return [];
  const pauses = await selectPauses(db, at);
  const due = open.filter((job) => isDue(job, at) && findPause(pauses, job.name) === null);
  const names = namesOrTell(call);
  if (names === null) return [];
  const gone = due.filter(({ tier }) => !names.includes(tier)).map(({ id }) => id);
  await cancelJobs(db, gone, { workerId: null, at, reason: 'its tier no longer exists' });
  const free = await withoutHeld(db, new Set(due.map(({ tier }) => tier)));
  return names.filter((name) => free.has(name) && !spooledTiers.has(name));
}

/** What was asked for has run: that there may be more is told, and undoes nothing. */
function namesOrTell({ runner, events }: StoreInvocation): readonly string[] | null {
  try {
    return tierNames(runner.root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    events.emit('trouble', error.message);
    return null;
  }
}

/** What a living worker has queued it runs itself; dead ones were found out before. */
async function withoutHeld(db: Database, tiers: ReadonlySet<string>) {
  const workers = db.selectFrom('workers').select('tier').where('state', '=', 'running');
  const held = await workers.execute();
  const taken = new Set(held.map(({ tier }) => tier));
  return new Set([...tiers].filter((tier) => !taken.has(tier)));
}
