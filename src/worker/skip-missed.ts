import prettyMilliseconds from 'pretty-ms';
import { skipTier, type WorkerRequest } from '../lock/tier-slot.ts';
import { hasSkippedPass } from '../queue/last-pass.ts';
import type { Store } from '../store/open-store.ts';

/** A pass that would have been due. */
export interface MissedWorker extends WorkerRequest {
  readonly scheduledFor: number;
}

const MISSED = 'it was missed';

/** Records, once for each period, that a pass was missed and is not made up for. */
export async function skipMissed({ db }: Store, worker: MissedWorker): Promise<string | null> {
  const { tier, scheduledFor, startedAt } = worker;
  if (await hasSkippedPass(db, { tier, scheduledFor, reasonStart: MISSED })) return null;
  const lateness = prettyMilliseconds(startedAt - scheduledFor, { compact: true });
  const reason = `${MISSED} by ${lateness}, and its tier's catchUp is 'skip'`;
  await skipTier(db, worker, reason);
  return reason;
}
