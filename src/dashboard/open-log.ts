import { checkStateFolder } from '../settings/access.ts';
import { StoreUnavailable } from '../store/failures.ts';
import { openExistingStore } from '../store/open.ts';
import { logIdentity } from '../store/shared/which-log.ts';
import type { ChangeWatch, Store } from '../store/store.ts';
import { UsageError } from '../system/base/errors.ts';
import type { StateFolder } from '../system/place/state-folder.ts';

/** The log of a root, or why it cannot be read. */
export interface OpenedLog {
  /** Null: there is no log, or none that could be read. */
  readonly store: Store | null;
  /** A sentence; null: the log can be read, or there is none. */
  readonly problem: string | null;
  /** Which file it is; null: there is none. */
  readonly file: string | null;
  /** Null: there is no log that could be read. */
  readonly watch: ChangeWatch | null;
}

export async function openLogIfAny(root: string, state: StateFolder): Promise<OpenedLog> {
  const file = logIdentity(state);
  try {
    checkStateFolder(root, state);
    const store = await openExistingStore(state);
    return { store, problem: null, file, watch: store?.watch() ?? null };
  } catch (error) {
    if (!(error instanceof StoreUnavailable || error instanceof UsageError)) throw error;
    return { store: null, problem: error.message, file, watch: null };
  }
}
