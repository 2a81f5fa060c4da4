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
  await waitForAll(pass, Array.from({ length: Math.min(concurrency, jobs.length) }, lane));
  if (pass.stop.reason !== null) await cancelRest(pass, pass.stop.reason);
  return ends;
}

/** A lane that breaks off, for want of the log or the disk, leaves the others to end what they run. */
async function waitForAll(pass: Pass, lanes: readonly Promise<void>[]): Promise<void> {
  for (const lane of lanes) {
    lane.catch((error) => pass.stop.startNothing(`the pass broke off: ${String(error)}`));
  }
  const settled = await Promise.allSettled(lanes);
  const broken = settled.find((each) => each.status === 'rejected');
  if (broken !== undefined) throw broken.reason;
}

function takeNext(pass: Pass, waiting: QueuedJob[]): QueuedJob | null {
  return pass.stop.reason === null ? (waiting.shift() ?? null) : null;
}

async function cancelRest(pass: Pass, reason: string): Promise<void> {
  const at = pass.runner.now();
  await cancelQueuedJobs(pass.store.db, pass.tier, { workerId: pass.workerId, at, reason });
}
