import type { RunEnd } from '../execution/run-end.ts';
import type { Call } from './pass.ts';
import { runLeftovers } from './run-leftovers.ts';
import { runPass } from './run-pass.ts';
import { serveQueue } from './serve-queue.ts';
import { ifLogAllows } from './store-trouble.ts';
import type { TierRequest } from './tier-request.ts';
import { withLog } from './with-log.ts';

/** How a call went. */
export interface CallSummary {
  /** Null: what was asked for was skipped. */
  readonly ends: readonly RunEnd[] | null;
  /** Whether what was asked for could not be done, or not all of it. Default false. */
  readonly isBroken?: boolean;
}

/**
 * Runs a tier, or one script of it, and then whatever is due of other tiers. Throws nothing about a
 * script, and nothing about the log: without one the runs are recorded in the spool.
 */
export async function runTier(call: Call, request: TierRequest): Promise<CallSummary> {
  return await withLog(
    call,
    async (logged) => {
      if (request.kind === 'script') return { ends: await runPass(logged, request) };
      const more: RunEnd[] = [];
      const collect = () =>
        ifLogAllows(call, async () => more.push(...(await runLeftovers(logged))));
      // With little time, what has waited already comes first.
      if (call.budget !== null) await collect();
      const ends = await runPass(logged, request);
      await collect();
      await ifLogAllows(call, async () => more.push(...(await serveQueue(logged))));
      return { ends: ends === null && more.length === 0 ? null : [...(ends ?? []), ...more] };
    },
    async (reason) => {
      const { runWithoutLog } = await import('./run-without-log.ts');
      return { ends: await runWithoutLog(call, request, reason) };
    },
  );
}
