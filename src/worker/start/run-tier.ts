import type { KeptEnd } from '../../execution/result/result.ts';
import { bootOfMachine, machineName } from '../../system/process/identity.ts';
import type { Invocation, StoreInvocation, TierRequest } from '../invocation/invocation.ts';
import { ifLogAllows, withStore } from '../invocation/with-store.ts';
import { runBacklog } from './run-backlog.ts';
import { runPass, withPings } from './run-pass.ts';

/** How a call went. */
export interface CallSummary {
  /** Null: what was asked for was skipped. */
  readonly ends: readonly KeptEnd[] | null;
  /** Whether what was asked for could not be done, or not all of it. Default false. */
  readonly isBroken?: boolean;
}

/**
 * Runs a tier, or one script of it, and then whatever is due of other tiers. Throws nothing about a
 * script, and nothing about the log: without one the runs are recorded in the spool.
 */
export async function runTier(call: Invocation, request: TierRequest): Promise<CallSummary> {
  return await withStore(
    call,
    async (logged) => {
      if (request.kind === 'script') return { ends: await runPass(logged, request) };
      await ifLogAllows(call, () => seeBoot(logged));
      const more: KeptEnd[] = [];
      const collect = () => ifLogAllows(call, async () => more.push(...(await runBacklog(logged))));
      // With little time, what has waited already comes first.
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

/** Queues what is to run once after each boot. That there was none since is told by one look into the log. */
export async function seeBoot(call: StoreInvocation): Promise<void> {
  const boot = bootOfMachine();
  if (boot === null) return;
  const ofHere = { machine: `boot ${machineName()} `, boot };
  if ((await call.store.chores.doneAt(ofHere.machine + boot)) !== null) return;
  const { queueAfterBoot } = await import('./after-boot.ts');
  await queueAfterBoot(call, ofHere);
}

/** So long a pass serves the queue at most: who wants more calls `runner work`. */
const LONGEST_MS = 10 * 60_000;

/**
 * Works off what is due in the queue, so that a site with little to do needs no line of the crontab for
 * it. Nothing of that is loaded where there is nothing to do.
 */
export async function serveQueue(call: StoreInvocation): Promise<readonly KeptEnd[]> {
  const { store, runner, stop, budget } = call;
  if (stop.reason !== null || !(await store.claims.hasDue(runner.now()))) return [];
  const leftMs = budget === null ? LONGEST_MS : budget.startedAt + budget.budgetMs - performance.now();
  if (leftMs <= 0) return [];
  const { workOnceIfAny } = await import('./work-queue.ts');
  return await workOnceIfAny(call, leftMs);
}
