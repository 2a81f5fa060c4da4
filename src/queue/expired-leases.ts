import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { JobRow } from '../store/schema.ts';

/** A claim of who is no worker of the runner is over only this long after its lease. */
export const LEASE_GRACE_MS = 2_000;

/** Whether any claim's lease has run out: one look at an index that is nearly empty. */
export async function hasExpiredLease(db: Database, at: number): Promise<boolean> {
  return (await selectExpired(db, at)).length > 0;
}

export interface Expired extends Pick<JobRow, 'id' | 'claimed_by' | 'lease_ms' | 'leased_until'> {
  /** Of a running job: that its worker was given more time. */
  readonly reason: string | null;
}

export async function selectExpired(db: Database, at: number): Promise<Expired[]> {
  return await queryRaw(
    db,
    `select id, claimed_by, lease_ms, leased_until, reason from jobs
     where leased_until is not null and leased_until < ? and tier is null and state = 'running'
       and (claimed_by is not null or leased_until < ?)`,
    [at, at - LEASE_GRACE_MS],
  );
}
