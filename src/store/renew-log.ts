import type { StateFolder } from '../config/state-folder.ts';
import type { Activity } from './activity.ts';
import { buildLog, placeLog } from './build-log.ts';
import { removeDatabase } from './database-files.ts';
import { highestRunNumber } from './highest-run-number.ts';
import { type Broken, type Found, inspectLog } from './inspect-log.ts';
import { unplacedLog } from './second-name.ts';
import {
  planSettingAside,
  removeLeftovers,
  type SettingAside,
  setAsideLog,
} from './set-aside-log.ts';
import type { Opening } from './sqlite/open-database.ts';
import { withStoreLock } from './store-lock.ts';
import { clearSuspicion } from './suspicion.ts';

export interface Renewed {
  readonly found: Found;
  /** The sentence for people, if something was set aside. */
  readonly setAside: string | null;
}

/** Makes a log where there is none, or a broken one; one process at a time, the others find it made. */
export async function renewLog(folder: StateFolder, opening: Opening): Promise<Renewed> {
  return await withStoreLock(folder, opening, async () => {
    const found = inspectLog(folder, opening);
    if (found.is !== 'missing' && found.is !== 'broken') return { found, setAside: null };
    const setAside = await replaceLog(folder, opening, found);
    return { found: inspectLog(folder, opening), setAside };
  });
}

async function replaceLog(
  folder: StateFolder,
  opening: Opening,
  found: Broken | { readonly is: 'missing' },
): Promise<string | null> {
  const { reason, connection } = found.is === 'broken' ? found : nothing;
  const plan = planSettingAside(folder, reason, opening.now());
  const fresh = unplacedLog(folder);
  try {
    // Before anything is moved: where there is no room for it, all stays as it is.
    const activities = plan === null ? [] : [tell(plan)];
    await buildLog(fresh, opening, { activities, lastRun: highestRunNumber(folder) });
    if (plan !== null) setAsideLog(plan, connection, folder);
    removeLeftovers(folder);
    clearSuspicion(folder);
    placeLog(fresh, folder.database);
  } finally {
    connection?.close();
    removeDatabase(fresh);
  }
  return plan?.sentence ?? null;
}

const nothing = { reason: null, connection: null };

function tell({ at, sentence }: SettingAside): Activity {
  return { at, event: 'log-set-aside', detail: sentence };
}
