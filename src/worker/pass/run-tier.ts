import type { KeptEnd } from '../../execution/result/result.ts';
import { bootOfMachine, machineName } from '../../system/process/identity.ts';
import type { Invocation, StoreInvocation, TierRequest } from '../invocation/invocation.ts';
import { ifLogAllows, withStore } from '../invocation/with-store.ts';
import { runBacklog } from './run-backlog.ts';
import { runPass, withPings } from './run-pass.ts';

/** The result of a call. */
export interface CallSummary {
  /** Null: the requested work was skipped. */
  readonly ends: readonly KeptEnd[] | null;
  /** Whether the requested work could not be done, or only in part. Default false. */
  readonly isBroken?: boolean;
}

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
