import type { RunEnd } from '../execution/run-end.ts';
import { cancelQueuedJobs } from '../queue/cancel-jobs.ts';
import type { QueuedJob } from '../queue/enqueue-scripts.ts';
import type { Pass } from './pass.ts';
import { runJob } from './run-job.ts';

/** Runs the jobs in their order, so many at a time; what may not start any more is cancelled. */
export async function workOff(
  pass: Pass,
  jobs: readonly QueuedJob[],
  concurrency: number,
): Promise<RunEnd[]> {
  const waiting = [...jobs];
  const ends: RunEnd[] = [];
  const lane = async (): Promise<void> => {
    for (let job = takeNext(pass, waiting); job !== null; job = takeNext(pass, waiting)) {
      const end = await runJob(pass, job);
      if (end !== null) ends.push(end);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, jobs.length) }, lane));
  if (pass.stop.reason !== null) await cancelRest(pass, pass.stop.reason);
  return ends;
}

function takeNext(pass: Pass, waiting: QueuedJob[]): QueuedJob | null {
  return pass.stop.reason === null ? (waiting.shift() ?? null) : null;
}

async function cancelRest(pass: Pass, reason: string): Promise<void> {
  const at = pass.runner.now();
  await cancelQueuedJobs(pass.store.db, pass.tier, { workerId: pass.workerId, at, reason });
}
