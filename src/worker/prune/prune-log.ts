import type { StateFolder } from '../../place/state-folder.ts';
import type { Runner } from '../../settings/settings.ts';
import { recordActivity } from '../../store/events.ts';
import {
  countStoredJobs,
  type DeletedJobs,
  deleteEndedJobs,
  deleteOldActivity,
  deleteOldestJobs,
  deleteOldWorkers,
  deleteRunsOfRepeating,
  measureLog,
  removeOutput,
} from '../../store/prune.ts';
import type { Database, Store } from '../../store/store.ts';

/** Small, so that no step holds the write lock for long; a backlog is worked off over many passes. */
const ROWS_PER_STEP = 500;
const STEPS_PER_PASS = 4;
const PAGES_PER_PASS = 1_000;

/** Deletes what is older than the settings keep, then the oldest while the log is too large. */
export async function pruneLog(runner: Runner, store: Store, workerId: number): Promise<void> {
  const { db } = store;
  const { state, settings } = runner;
  const { retention } = settings;
  const at = runner.now();
  const keptFrom = at - retention.succeededMs;
  const keptFailedFrom = at - retention.failedMs;
  const pruned =
    (await repeatJobStep(state, () =>
      deleteEndedJobs(db, ['finished', 'cancelled'], keptFrom, ROWS_PER_STEP),
    )) +
    (await repeatJobStep(state, () =>
      deleteEndedJobs(db, ['failed'], keptFailedFrom, ROWS_PER_STEP),
    )) +
    (await repeatJobStep(state, () =>
      deleteRunsOfRepeating(
        db,
        { succeededBefore: keptFrom, failedBefore: keptFailedFrom },
        ROWS_PER_STEP,
      ),
    )) +
    (await repeatJobStep(state, () => deleteOverSize(db, retention.maxDatabaseBytes)));
  await repeatStep(() => deleteOldActivity(db, keptFrom, ROWS_PER_STEP));
  await repeatStep(() => deleteOldWorkers(db, keptFailedFrom, ROWS_PER_STEP));
  if (pruned === 0) return;
  store.giveBackPages(PAGES_PER_PASS);
  await recordActivity(db, { at, event: 'log-pruned', workerId, detail: `${pruned} jobs` });
}

function repeatJobStep(state: StateFolder, step: () => Promise<DeletedJobs>): Promise<number> {
  return repeatStep(async () => {
    const { count, outputFiles } = await step();
    removeOutput(state, outputFiles);
    return count;
  });
}

async function repeatStep(step: () => Promise<number>): Promise<number> {
  let deleted = 0;
  for (let steps = 0; steps < STEPS_PER_PASS; steps += 1) {
    const count = await step();
    if (count === 0) break;
    deleted += count;
  }
  return deleted;
}

/** So many as the excess amounts to at their average size: 500 large ones could be the whole log. */
async function deleteOverSize(db: Database, maxDatabaseBytes: number): Promise<DeletedJobs> {
  const bytes = await measureLog(db);
  const excessBytes = bytes - maxDatabaseBytes;
  if (excessBytes <= 0) return { count: 0, outputFiles: [] };
  const share = Math.ceil((await countStoredJobs(db)) * (excessBytes / bytes));
  return deleteOldestJobs(db, Math.min(share, ROWS_PER_STEP));
}
