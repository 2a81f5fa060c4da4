import type { Database } from '../store/open-store.ts';
import { LEASE_GRACE_MS } from './leases.ts';
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

async function selectNextLeaseEnd(db: Database, at: number): Promise<number | null> {
  const next = await db
    .selectFrom('jobs')
    .select('leased_until')
    .where('leased_until', 'is not', null)
    .orderBy('leased_until')
    .limit(1)
    .executeTakeFirst();
  if (next === undefined) return null;
  // A millisecond later: until then the lease is not over.
  const endsAt = (next.leased_until as number) + LEASE_GRACE_MS + 1;
  // What is over already was left for another look.
  return endsAt > at ? endsAt : at + LEASE_GRACE_MS / 2;
}

async function selectNextPauseEnd(db: Database, at: number): Promise<number | null> {
  const next = await db
    .selectFrom('pauses')
    .select(({ fn }) => fn.min('until').as('until'))
    .where('until', '>', at)
    .executeTakeFirst();
  return next?.until ?? null;
}
