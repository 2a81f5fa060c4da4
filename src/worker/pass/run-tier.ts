import { discover } from '../../discovery/discover.ts';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { mayHaveToWait, type Tier } from '../../discovery/script.ts';
import type { KeptEnd } from '../../execution/result/result.ts';
import { isDue } from '../../queue/add/scripts.ts';
import { findPause } from '../../queue/pauses.ts';
import { cancelWaiting } from '../../queue/settle/change-by-event.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { Store } from '../../store/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { bootOfMachine, machineName } from '../../system/process/identity.ts';
import type { CallSummary, Invocation, StoreInvocation, TierRequest } from '../invocation/invocation.ts';
import { ifLogAllows, withStore } from '../invocation/with-store.ts';
import { runPass, withPings } from './run-pass.ts';

/**
 * Runs a tier, or one script of it, and then everything that is due in other tiers. Neither a script nor the log makes
 * it throw: without a log the spool records the runs.
 */
export async function runTier(call: Invocation, request: TierRequest): Promise<CallSummary> {
  return await withStore(
    call,
    async (logged) => {
      if (request.kind === 'script') return { ends: await runPass(logged, request) };
      await ifLogAllows(call, () => seeBoot(logged));
      const more: KeptEnd[] = [];
      const collect = () => ifLogAllows(call, async () => more.push(...(await runBacklog(logged))));
      // If time is short, jobs that have waited already come first.
      if (call.budget !== null) await collect();
      const ends = await runPass(logged, request);
      await collect();
      await ifLogAllows(call, async () => more.push(...(await serveQueue(logged))));
      return { ends: ends === null && more.length === 0 ? null : [...(ends ?? []), ...more] };
    },
    async (reason) => {
      const { leavesSome, runWithoutLog } = await import('./run-without-store.ts');
      const ends = await withPings(call, request, () => runWithoutLog(call, request, reason));
      return { ends, isBroken: leavesSome(request) };
    },
  );
}

/** Queues the scripts that run once after each boot. One look into the log tells whether there was a boot. */
export async function seeBoot(call: StoreInvocation): Promise<void> {
  const boot = bootOfMachine();
  if (boot === null) return;
  const ofHere = { machine: `boot ${machineName()} `, boot };
  if ((await call.store.chores.doneAt(ofHere.machine + boot)) !== null) return;
  const { queueAfterBoot } = await import('./after-boot.ts');
  await queueAfterBoot(call, ofHere);
}

/** Longest time that a pass serves the queue, in milliseconds; `runner work` serves it longer. */
const LONGEST_MS = 10 * 60_000;

/**
 * Processes due jobs of the queue, so that a site with few jobs needs no crontab line for them. If there is nothing to
 * do, it loads nothing for it.
 */
export async function serveQueue(call: StoreInvocation): Promise<readonly KeptEnd[]> {
  const { store, runner, stop, budget } = call;
  if (stop.reason !== null || !(await store.claims.hasDue(runner.now()))) return [];
  const leftMs = budget === null ? LONGEST_MS : budget.startedAt + budget.budgetMs - performance.now();
  if (leftMs <= 0) return [];
  const { workOnceIfAny } = await import('./work-queue.ts');
  return await workOnceIfAny(call, leftMs);
}

/**
 * Runs what is due in any tier outside of its passes: retries whose time has come, and jobs that a pass has deferred,
 * or did not reach before it died. A tier with a living worker is left to it.
 */
export async function runBacklog(call: StoreInvocation): Promise<readonly KeptEnd[]> {
  const ends: KeptEnd[] = [];
  for (let tiers = await findDueTiers(call); tiers.length > 0; ) {
    const ran = await runTiers(call, tiers);
    ends.push(...ran);
    tiers = ran.length === 0 ? [] : await findDueTiers(call);
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
  const due = open.filter((job) => isOurs(job) && isDue(job, scripts.get(job.name), runner.now()));
  const mayWait = ({ name }: ScriptJobRow): boolean => {
    const script = scripts.get(name);
    return script !== undefined && mayHaveToWait(script);
  };
  if (!due.some(mayWait)) return due.length > 0;
  const { findFree } = await import('./links.ts');
  return (await findFree(store, due, scripts, runner.now())).length > 0;
}

/** Tiers with a due job that no worker has and nobody has paused. */
async function findDueTiers(call: StoreInvocation): Promise<readonly string[]> {
  const { runner, stop, spooledTiers, store } = call;
  const at = runner.now();
  const open = (await store.scriptJobs.open()).filter(isForHere);
  // A script's own delay is unknown until its file is read.
  const isWaiting = (job: ScriptJobRow): boolean =>
    isDue(job, undefined, at) &&
    (store.fleet === null || job.host !== null || job.links_met !== null || isLeftOver(job, at));
  if (stop.reason !== null || !open.some(isWaiting)) return [];
  const pauses = await store.pauses.inForce(at);
  const due = open.filter((job) => isWaiting(job) && findPause(pauses, job.name) === null && !isExecName(job.name));
  if (open.some(({ name }) => isExecName(name))) await endLeft(call);
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

/** Ends the jobs of commands whose calls of `runner exec` have died. */
async function endLeft(call: StoreInvocation): Promise<void> {
  const { endLeftCommands } = await import('./end-left.ts');
  await endLeftCommands(call);
}

function isForHere({ host }: ScriptJobRow): boolean {
  return host === null || host === machineName();
}

/** A job queued just now by another machine's crontab is left to the same line here, unless it waits for others. */
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
