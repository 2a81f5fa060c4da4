import { fallbackStateFolderOf } from '../config/fallback-state-folder.ts';
import { listNames } from '../config/list-names.ts';
import { hasExpiredLease } from '../queue/expired-leases.ts';
import { mayHaveLost } from '../queue/may-have-lost.ts';
import type { Database } from '../store/open-store.ts';
import { hasSecondName } from '../store/second-name.ts';
import { hasSpool } from '../store/spool/spool-files.ts';
import type { Runner } from './runner.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** Whether the log may not tell the truth. Asked at every start, and cheap: mostly it does. */
export async function mayNeedReconciling(place: Place, db: Database): Promise<boolean> {
  const { temporary, locks } = place.state;
  // A run's temporary folder is the last that goes, and a worker's lock: without them nothing is left.
  return (
    isSpooled(place) ||
    listNames(temporary).length > 0 ||
    listNames(locks).length > 0 ||
    hasSecondName(place.state) ||
    (await mayHaveLost(db)) ||
    (await hasExpiredLease(db, Date.now()))
  );
}

/** Whether runs may lie beside the log. */
export function isSpooled({ root, state }: Place): boolean {
  return hasSpool(state) || hasSpool(fallbackStateFolderOf(root));
}
