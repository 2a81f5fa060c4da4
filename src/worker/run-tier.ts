import { createStateFolder } from '../config/state-folder.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { openStore } from '../store/open-store.ts';
import type { Call } from './pass.ts';
import { runLeftovers } from './run-leftovers.ts';
import { runPass } from './run-pass.ts';
import type { TierRequest } from './tier-request.ts';

/** How a call went. */
export interface CallSummary {
  /** Null: what was asked for was skipped. */
  readonly ends: readonly RunEnd[] | null;
}

/**
 * Runs a tier, or one script of it, and then whatever is due of other tiers. Throws nothing about a
 * script.
 */
export async function runTier(call: Call, request: TierRequest): Promise<CallSummary> {
  createStateFolder(call.runner.state);
  const store = await openStore(call.runner.state);
  try {
    const ends = await runPass(call, store, request);
    if (request.kind === 'script') return { ends };
    const more = await runLeftovers(call, store);
    return { ends: ends === null && more.length === 0 ? null : [...(ends ?? []), ...more] };
  } finally {
    await store.close();
  }
}
