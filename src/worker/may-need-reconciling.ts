import { readdirSync } from 'node:fs';
import { fallbackStateFolderOf } from '../config/fallback-state-folder.ts';
import { mayHaveLost } from '../queue/rescue-jobs.ts';
import type { Database } from '../store/open-store.ts';
import { hasSpool } from '../store/spool/has-spool.ts';
import type { Runner } from './runner.ts';

/** Whether the log may not tell the truth. Asked at every start, and cheap: mostly it does. */
export async function mayNeedReconciling(
  { root, state }: Pick<Runner, 'root' | 'state'>,
  db: Database,
): Promise<boolean> {
  // A run's temporary folder is the last that goes, and a worker's lock: without them nothing is left.
  return (
    hasSpool(state) ||
    hasSpool(fallbackStateFolderOf(root)) ||
    readdirSync(state.temporary).length > 0 ||
    readdirSync(state.locks).length > 0 ||
    (await mayHaveLost(db))
  );
}
