import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import { LEASE_GRACE_MS } from './expired-leases.ts';
import { selectNextDue } from './waiting-jobs.ts';

/**
 * When something can be taken that cannot be now, though nobody changes the log: a job becomes due, a
 * lease runs out, a pause ends. Null: never.
 */
export async function selectNextWake(db: Database, at: number): Promise<number | null> {
  const moments = [
    await selectNextDue(db, at),
    await selectNextLeaseEnd(db, at),
    await selectNextPauseEnd(db, at),
  ].filter((moment) => moment !== null);
  return moments.length === 0 ? null : Math.min(...moments);
}

interface Moment {
  readonly next: number | null;
}

/** Who is no worker of the runner has some more time. */
const endOfLease = `min(leased_until + case when claimed_by is null then ${LEASE_GRACE_MS} else 0 end)`;

async function selectNextLeaseEnd(db: Database, at: number): Promise<number | null> {
  const text = `select ${endOfLease} as next from jobs where leased_until is not null`;
  const [{ next }] = (await queryRaw<Moment>(db, text)) as [Moment];
  if (next === null) return null;
  // What is over already was left for another look; on the instant itself it is not over.
  return next >= at ? next + 1 : at + LEASE_GRACE_MS / 2;
}

/** When the first pause ends by itself; null: none does. */
export async function selectNextPauseEnd(db: Database, at: number): Promise<number | null> {
  const text = 'select min(until) as next from pauses where until > ?';
  const [{ next }] = (await queryRaw<Moment>(db, text, [at])) as [Moment];
  return next;
}
