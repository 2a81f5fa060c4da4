import type { RunEnd } from '../execution/run-end.ts';
import type { QueuedJob } from '../queue/enqueue-scripts.ts';
import type { Pass } from './pass.ts';
import { pruneLog } from './prune-log.ts';
import { workOff } from './work-off.ts';

/** Runs the jobs of a pass, then keeps the log in bounds. */
export async function workPass(pass: Pass, jobs: readonly QueuedJob[]): Promise<RunEnd[]> {
  const { settings } = pass.runner;
  const concurrency = settings.tiers[pass.tier]?.concurrency ?? settings.concurrency;
  const ends = await workOff(pass, jobs, concurrency);
  await pruneLog(pass);
  return ends;
}
