import { cancelJobs } from '../queue/cancel-jobs.ts';
import { deferJobs } from '../queue/defer-jobs.ts';
import type { Database } from '../store/open-store.ts';
import type { PassJob } from './journal.ts';
import type { StopRequest } from './stop-request.ts';

interface Leaving {
  readonly workerId: number;
  readonly at: number;
  readonly stop: StopRequest;
}

/** What a pass did not start: the next pass of any tier does, or nobody does. */
export async function leaveRest(
  db: Database,
  rest: readonly PassJob[],
  { workerId, at, stop }: Leaving,
): Promise<void> {
  const ids = rest.flatMap(({ id }) => id ?? []);
  const why = { workerId, at, reason: stop.reason ?? 'its pass broke off' };
  if (stop.rest === 'cancel') await cancelJobs(db, ids, why);
  else await deferJobs(db, ids, why);
}
