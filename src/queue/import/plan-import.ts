import { isEnded } from '../job-states.ts';
import type { BadJob, ForeignQueue, ImportedJob, LeftOut } from './imported-job.ts';
import type { KnownJob, KnownJobs } from './known-jobs.ts';

/** What is to be done with a job of the file. */
export type Step = AddStep | BadJob | LeftOut | { readonly known: true };

export interface AddStep {
  readonly job: ImportedJob;
  /** The number here of a parent that an earlier import has taken over; null: it has none, or a new one. */
  readonly parentId: number | null;
}

/** Each job's turn, in the order of the file. */
export function* planImport(
  queue: ForeignQueue,
  known: KnownJobs,
  bad: ReadonlySet<string>,
): Iterable<Step> {
  const parents = new Map<string, KnownJob>();
  for (const reading of queue.read(bad)) {
    if (!('key' in reading)) yield reading;
    else if (!known.has(reading.key)) yield planJob(reading, parents);
    else {
      if (queue.isParent(reading.id)) parents.set(reading.id, known.get(reading.key) ?? null);
      yield { known: true };
    }
  }
}

function planJob(job: ImportedJob, parents: ReadonlyMap<string, KnownJob>): AddStep | BadJob {
  if (job.parent === null || !parents.has(job.parent)) return { job, parentId: null };
  const parent = parents.get(job.parent) ?? null;
  if (parent !== null && isEnded(job.state)) return { job, parentId: parent.id };
  if (parent === null || isEnded(parent.state)) {
    const problem = `its parent ${job.parent} was taken over before, and has ended here since`;
    return { id: job.id, problem };
  }
  const state = parent.state === 'paused' ? 'queued' : 'paused';
  return { job: { ...job, state }, parentId: parent.id };
}
