import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { recordActivity } from '../store/activity.ts';
import {
  type DeletedJobs,
  deleteEndedJobs,
  deleteOldActivity,
  deleteOldestJobs,
  deleteOldWorkers,
  giveBackPages,
  measureLog,
} from '../store/delete-rows.ts';
import type { Pass } from './pass.ts';

/** Small, so that no step holds the write lock for long; a backlog is worked off over many passes. */
const ROWS_PER_STEP = 500;
const STEPS_PER_PASS = 4;
const PAGES_PER_PASS = 1_000;

/** Deletes what is older than the settings keep, then the oldest while the log is too large. */
export async function pruneLog(pass: Pass): Promise<void> {
  const { store, runner, workerId } = pass;
  const { db } = store;
  const { retention } = runner.settings;
  const at = runner.now();
  const keptFrom = at - retention.succeededMs;
  const keptFailedFrom = at - retention.failedMs;
  const pruned =
    (await repeatStep(pass, () =>
      deleteEndedJobs(db, ['finished', 'cancelled'], keptFrom, ROWS_PER_STEP),
    )) +
    (await repeatStep(pass, () => deleteEndedJobs(db, ['failed'], keptFailedFrom, ROWS_PER_STEP))) +
    (await repeatStep(pass, () => deleteOverSize(pass)));
  await deleteOldActivity(db, keptFrom, ROWS_PER_STEP);
  await deleteOldWorkers(db, keptFailedFrom, ROWS_PER_STEP);
  if (pruned === 0) return;
  await giveBackPages(db, PAGES_PER_PASS);
  await recordActivity(db, { at, event: 'log-pruned', workerId, detail: `${pruned} jobs` });
}

async function repeatStep(pass: Pass, step: () => Promise<DeletedJobs>): Promise<number> {
  let pruned = 0;
  for (let steps = 0; steps < STEPS_PER_PASS; steps += 1) {
    const { count, outputFiles } = await step();
    // The row goes first: a file without its row is clutter, a row without its file is a lie.
    for (const file of outputFiles) rmSync(join(pass.runner.state.output, file), { force: true });
    pruned += count;
    if (count < ROWS_PER_STEP) break;
  }
  return pruned;
}

async function deleteOverSize({ store, runner }: Pass): Promise<DeletedJobs> {
  const bytes = await measureLog(store.db);
  if (bytes <= runner.settings.retention.maxDatabaseBytes) return { count: 0, outputFiles: [] };
  return deleteOldestJobs(store.db, ROWS_PER_STEP);
}
