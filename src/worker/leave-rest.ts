import { cancelJobs } from '../queue/cancel-jobs.ts';
import { deferJobs } from '../queue/defer-jobs.ts';
import type { Database } from '../store/open-store.ts';
import type { WorkerKind } from '../store/schema.ts';
import type { PassJob } from './journal.ts';
import type { StopRequest } from './stop-request.ts';

interface Leaving {
  readonly workerId: number;
  readonly at: number;
  readonly stop: StopRequest;
  readonly kind: WorkerKind;
}

/** What a pass did not start: the next pass of any tier does, or nobody does. */
export async function leaveRest(
  db: Database,
  rest: readonly PassJob[],
  { workerId, at, stop, kind }: Leaving,
): Promise<void> {
  const ids = rest.flatMap(({ id }) => id ?? []);
  const why = { workerId, at, reason: stop.reason ?? 'its pass broke off' };
  // What an earlier pass has left nobody meant who interrupts this one.
  if (stop.rest === 'cancel' && kind !== 'leftover') await cancelJobs(db, ids, why);
  else await deferJobs(db, ids, why);
}
