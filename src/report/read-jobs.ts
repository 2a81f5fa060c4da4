import { listJobs } from '../queue/list-jobs.ts';
import type { Job, ListOptions } from '../queue/queue.ts';
import type { Database } from '../store/open-store.ts';

/** Jobs of the queue, the newest first. */
export interface JobList {
  readonly jobs: readonly Job[];
  /** There are more, which the limit left out. */
  readonly isCut: boolean;
}

/** The queue hands out no more at once. */
const PAGE = 1000;

export async function readJobs(
  db: Database,
  { limit, ...options }: Omit<ListOptions, 'before'> & { readonly limit: number },
  nowMs: number,
): Promise<JobList> {
  const jobs: Job[] = [];
  // One more than asked for tells whether there are more.
  while (jobs.length <= limit) {
    const size = Math.min(PAGE, limit + 1 - jobs.length);
    const last = jobs.at(-1);
    const before = last === undefined ? {} : { before: last.id };
    const page = await listJobs(db, { ...options, ...before, limit: size }, nowMs);
    jobs.push(...page);
    if (page.length < size) break;
  }
  return { jobs: jobs.slice(0, limit), isCut: jobs.length > limit };
}
