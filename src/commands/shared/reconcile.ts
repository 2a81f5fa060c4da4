import { printableLine } from '../../base/text.ts';
import { type Reconciler, reconcile } from '../../recovery/reconcile.ts';
import { loadSettingsIfRight } from '../../settings/load.ts';
import { isStoreFailure } from '../../store/failures.ts';
import type { Store } from '../../store/store.ts';
import type { CommandContext } from './context.ts';

/** Who reads waits no longer than this for somebody who writes. */
const PATIENCE_MS = 1000;

/**
 * Records what died, before somebody reads the log; never ends what lives. A log that cannot be
 * written keeps nobody from reading it: then a note says that it may be behind.
 */
export async function reconcileForReader(
  context: CommandContext,
  place: Pick<Reconciler, 'root' | 'state'>,
  store: Store,
): Promise<void> {
  const note = (text: string) => context.stderr.write(`Note: ${printableLine(text)}\n`);
  if (store.isReadOnly) return void note(describeUnchecked('the log cannot be written'));
  const reconciler = { ...place, settings: await loadSettingsIfRight(place.root) };
  try {
    const rescue = { at: context.now(), mayTerminate: false };
    const record = () => reconcile(reconciler, store.db, rescue);
    const { notes } = await store.withPatience(PATIENCE_MS, record);
    notes.forEach(note);
  } catch (error) {
    if (!isStoreFailure(error)) throw error;
    note(describeUnchecked((error as Error).message));
  }
}

function describeUnchecked(why: string): string {
  return `dead runs could not be recorded, so they may be shown as running: ${why}`;
}
