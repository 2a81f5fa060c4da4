import type { RunEnd } from '../../execution/result/result.ts';
import type { TierPass } from '../invocation/invocation.ts';
import type { PassJob } from '../record/run-recorder.ts';
import { runJob } from './run-job.ts';

interface WorkedOff {
  readonly ends: readonly RunEnd[];
  /** What was not started: the pass was told to stop, or has to wait for a better time. */
  readonly rest: readonly PassJob[];
}

/** Runs the jobs in their order, so many at a time. */
export async function workOff(pass: TierPass, jobs: readonly PassJob[]): Promise<WorkedOff> {
  const { settings } = pass.runner;
  const concurrency = settings.tiers[pass.tier]?.concurrency ?? settings.concurrency;
  const waiting = [...jobs];
  const ends: RunEnd[] = [];
  const lane = async (): Promise<void> => {
    for (let job = await next(pass, waiting); job !== null; job = await next(pass, waiting)) {
      const end = await runJob(pass, job);
      if (end !== null) ends.push(end);
    }
  };
  await waitForAll(pass, Array.from({ length: Math.min(concurrency, jobs.length) }, lane));
  return { ends, rest: waiting };
}

/** A lane that breaks off, for want of the log or the disk, leaves the others to end what they run. */
async function waitForAll(pass: TierPass, lanes: readonly Promise<void>[]): Promise<void> {
  for (const lane of lanes) {
    lane.catch((error) => pass.stop.startNothing(`the pass was aborted: ${String(error)}`));
  }
  const settled = await Promise.allSettled(lanes);
  const broken = settled.find((each) => each.status === 'rejected');
  if (broken !== undefined) throw broken.reason;
}

/** Taken out before anybody is asked, so that no two lanes wait for the same job. */
async function next({ stop, admit }: TierPass, waiting: PassJob[]): Promise<PassJob | null> {
  const job = stop.reason === null ? waiting.shift() : undefined;
  if (job === undefined) return null;
  const reason = await admit(job.script);
  if (reason !== null) stop.startNothing(reason);
  if (stop.reason === null) return job;
  waiting.unshift(job);
  return null;
}
