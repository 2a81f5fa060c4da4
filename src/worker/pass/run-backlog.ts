import { discover } from '../../discovery/discover.ts';
import { tierNames } from '../../discovery/jobs-folder.ts';
import type { Tier } from '../../discovery/script.ts';
import type { KeptEnd } from '../../execution/result/result.ts';
import { isDue } from '../../queue/add/scripts.ts';
import { findPause } from '../../queue/pauses.ts';
import { cancelWaiting } from '../../queue/settle/families.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { Store } from '../../store/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { machineName } from '../../system/process/identity.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { runPass } from './run-pass.ts';

/**
 * Runs what is due in any tier outside of its passes: retries whose time has come, and jobs that a pass has deferred,
 * or did not reach before it died. A tier with a living worker is left to it.
 */
export async function runBacklog(call: StoreInvocation): Promise<readonly KeptEnd[]> {
  const ends: KeptEnd[] = [];
  for (let tiers = await findTiers(call); tiers.length > 0; ) {
    const ran = await runTiers(call, tiers);
    ends.push(...ran);
    tiers = ran.length === 0 ? [] : await findTiers(call);
  }
  return ends;
}

async function runTiers(call: StoreInvocation, tiers: readonly string[]): Promise<KeptEnd[]> {
  const { root, settings } = call.runner;
  const ends: KeptEnd[] = [];
  for (const name of tiers) {
    if (call.stop.reason !== null) break;
    const found = await discover(root, settings, { tier: name });
    for (const { reason } of found.unread) call.events.emit('problem', reason);
    const [tier] = found.tiers;
    if (tier === undefined || !(await isAnyDue(call, tier))) continue;
    ends.push(...((await runPass(call, { kind: 'backlog', tier, scripts: [] })) ?? []));
  }
  return ends;
}

/** Decides by the present files: a job that seems too far ahead may have its own long delay. */
async function isAnyDue({ store, runner }: StoreInvocation, tier: Tier): Promise<boolean> {
  const scripts = new Map(tier.scripts.map((script) => [script.name, script]));
  const open = (await store.scriptJobs.open(tier.name)).filter(isForHere);
  const isOurs = ({ name }: ScriptJobRow): boolean => store.fleet === null || scripts.has(name);
  return open.some((job) => isOurs(job) && isDue(job, scripts.get(job.name), runner.now()));
}

/** Tiers with a due job that no worker has and nobody has paused. */
async function findTiers(call: StoreInvocation): Promise<readonly string[]> {
  const { runner, stop, spooledTiers, store } = call;
  const at = runner.now();
  const open = (await store.scriptJobs.open()).filter(isForHere);
  // A script's own delay is unknown until its file is read.
  const isWaiting = (job: ScriptJobRow): boolean =>
    isDue(job, undefined, at) && (store.fleet === null || job.host !== null || isLeftOver(job, at));
  if (stop.reason !== null || !open.some(isWaiting)) return [];
  const pauses = await store.pauses.inForce(at);
  const due = open.filter((job) => isWaiting(job) && findPause(pauses, job.name) === null);
  const names = namesOrReport(call);
  if (names === null) return [];
  const gone = due.filter(({ tier }) => !names.includes(tier));
  const reason = 'its tier no longer exists';
  // Another machine may have that tier.
  if (gone.length > 0 && store.fleet === null) {
    await store.transaction((session) => cancelWaiting(session, gone, { at, reason }));
  }
  const free = await withoutHeld(store, new Set(due.map(({ tier }) => tier)));
  return names.filter((name) => free.has(name) && !spooledTiers.has(name));
}

function isForHere({ host }: ScriptJobRow): boolean {
  return host === null || host === machineName();
}

/** A job queued just now by another machine's crontab is left to the same line here. */
const JOIN_AFTER_MS = 60_000;

function isLeftOver({ state, run_at }: ScriptJobRow, at: number): boolean {
  return state !== 'queued' || run_at <= at - JOIN_AFTER_MS;
}

/** The requested work has run, so a problem with further work is only reported. */
function namesOrReport({ runner, events }: StoreInvocation): readonly string[] | null {
  try {
    return tierNames(runner.root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    events.emit('problem', error.message);
    return null;
  }
}

/** A living worker runs the jobs that it has queued; dead ones were found before. */
async function withoutHeld(store: Store, tiers: ReadonlySet<string>) {
  const here = store.fleet === null ? undefined : machineName();
  const taken = new Set((await store.workers.running(undefined, here)).map(({ tier }) => tier));
  return new Set([...tiers].filter((tier) => !taken.has(tier)));
}
