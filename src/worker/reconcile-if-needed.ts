import type { Store } from '../store/open-store.ts';
import { isSpooled, mayNeedReconciling } from './may-need-reconciling.ts';
import type { Call } from './pass.ts';
import type { Orphan } from './reconcile.ts';

/** Puts right what does not tell the truth in the log; in nearly all calls there is nothing. */
export async function reconcileIfNeeded(call: Call, store: Store): Promise<readonly Orphan[]> {
  return (await mayNeedReconciling(call.runner, store.db)) ? await reconcileNow(call, store) : [];
}

/**
 * The same in the middle of a call: another one may have lost the log, and run what is queued here.
 *
 * @returns null when there is nothing new
 */
export async function reconcileIfSpooled(
  call: Call,
  store: Store,
): Promise<readonly Orphan[] | null> {
  return isSpooled(call.runner) ? await reconcileNow(call, store) : null;
}

async function reconcileNow({ runner, events }: Call, { db }: Store): Promise<readonly Orphan[]> {
  const { reconcile } = await import('./reconcile.ts');
  const { orphans, notes } = await reconcile(runner, db, { at: runner.now(), mayTerminate: true });
  for (const note of notes) events.emit('warning', note);
  return orphans;
}
