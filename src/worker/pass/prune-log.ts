import type { Runner } from '../../settings/settings.ts';
import { type PruneStep, pruningOf } from '../../store/statements/pruning.ts';
import { machinesOf } from '../../store/statements/registers.ts';
import type { Store } from '../../store/store.ts';
import { removeOutput, type StateFolder } from '../../system/place/state-folder.ts';

/** A small step does not hold the write lock for long; a backlog is pruned over many passes. */
const ROWS_PER_STEP = 500;
const STEPS_PER_PASS = 4;
const PAGES_PER_PASS = 1_000;

/**
 * How long a machine that shows no sign of life stays known, with its scripts: longer than any month, for a machine
 * whose only crontab line is monthly.
 */
export const MACHINE_KEPT_MS = 35 * 86_400_000;

type Pruning = ReturnType<typeof pruningOf>;
type Prune = (pruning: Pruning) => Promise<PruneStep>;

/**
 * Deletes rows older than the settings allow, then the oldest ones while the log is too large. One look, which takes no
 * lock, tells which steps are needed.
 */
export async function pruneLog(runner: Runner, store: Store, workerId: number): Promise<void> {
  const { succeededMs, failedMs, maxDatabaseBytes } = runner.settings.retention;
  const at = runner.now();
  const [succeeded, failed, seen] = [at - succeededMs, at - failedMs, at - MACHINE_KEPT_MS];
  const found = await pruningOf(store.statements).look({ succeeded, failed, seen });
  const repeat = async (isWanted: boolean, step: Prune): Promise<number> =>
    isWanted ? await repeatStep(runner.state, store, step) : 0;
  const pruned =
    (await repeat(found.jobs, (pruning) => pruning.endedJobs(['finished', 'cancelled'], succeeded, ROWS_PER_STEP))) +
    (await repeat(found.jobs, (pruning) => pruning.endedJobs(['failed'], failed, ROWS_PER_STEP))) +
    (await repeat(found.runs, (pruning) => pruning.runs({ succeeded, failed }, ROWS_PER_STEP))) +
    (await repeat(found.usedBytes > maxDatabaseBytes, (pruning) => pruneOverSize(pruning, maxDatabaseBytes)));
  await repeat(found.events, (pruning) => pruning.events(succeeded, ROWS_PER_STEP));
  // Their runs are gone by now, except those of jobs that have not ended.
  const longest = Math.min(succeeded, failed);
  await repeat(found.workers || pruned > 0, (pruning) => pruning.workers(longest, ROWS_PER_STEP));
  if (store.fleet !== null && found.machines) {
    await store.transaction(({ statements }) => machinesOf(statements).forget(seen, ROWS_PER_STEP), 'soon');
  }
  if (pruned === 0) return;
  await store.shrink(PAGES_PER_PASS);
  const detail = `${pruned} jobs and runs`;
  await store.events.record([{ at, event: 'log-pruned', workerId, detail }]);
}

async function repeatStep(state: StateFolder, store: Store, step: Prune): Promise<number> {
  let deleted = 0;
  for (let steps = 0; steps < STEPS_PER_PASS; steps += 1) {
    const done = await store.transaction((session) => step(pruningOf(session.statements)), 'soon');
    if (done.deleted === 0) break;
    removeOutput(state, done.outputFiles);
    deleted += done.deleted;
  }
  return deleted;
}

/**
 * Deletes as many of the oldest rows as the excess contains at their average size: 500 large ones could be the whole
 * log.
 */
async function pruneOverSize(pruning: Pruning, maxDatabaseBytes: number): Promise<PruneStep> {
  const bytes = await pruning.usedBytes();
  const excessBytes = bytes - maxDatabaseBytes;
  if (excessBytes <= 0) return { deleted: 0, outputFiles: [] };
  const share = Math.ceil((await pruning.rows()) * (excessBytes / bytes));
  return await pruning.oldest(Math.max(1, Math.min(share, ROWS_PER_STEP)));
}
