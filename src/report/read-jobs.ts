import { parseExactly } from '../config/exact-json.ts';
import { listJobs } from '../queue/list-jobs.ts';
import { type Pause, selectPauses } from '../queue/pauses.ts';
import type { Job, ListOptions } from '../queue/queue.ts';
import type { Database } from '../store/open-store.ts';

/** Jobs of the queue, in the order asked for. */
export interface JobList {
  readonly jobs: readonly Job[];
  /** There are more, which the limit left out. */
  readonly isCut: boolean;
  /** In force, whatever they are of. */
  readonly pauses: readonly Pause[];
}

/** The queue hands out no more at once. */
const PAGE = 1000;

export async function readJobs(
  db: Database,
  { limit, order = 'newest', ...options }: Omit<ListOptions, 'before'> & { readonly limit: number },
  nowMs: number,
): Promise<JobList> {
  const jobs: Job[] = [];
  let isLast = false;
  // One more than asked for tells whether there are more.
  while (jobs.length <= limit) {
    const size = Math.min(PAGE, limit + 1 - jobs.length);
    const last = jobs.at(-1);
    const before = last === undefined ? {} : { before: last.id };
    const page = await listJobs(
      db,
      { ...options, ...before, order, limit: size },
      nowMs,
      parseExactly,
    );
    jobs.push(...page);
    isLast = page.length < size;
    // Only by their numbers there is a way on from the last one.
    if (isLast || order !== 'newest') break;
  }
  const pauses = await selectPauses(db, nowMs);
  return { jobs: jobs.slice(0, limit), isCut: jobs.length > limit || !isLast, pauses };
}
