import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import { findJob, readRef } from './find-job.ts';
import { readLeaseMs } from './job-values.ts';
import type { JobRef } from './queue.ts';
import { wrongState } from './refusals.ts';

export interface Touching {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** `30s`, `10m`; undefined: as the job says. */
  readonly lease: string | undefined;
  /** Of a job that does not say. */
  readonly defaultLeaseMs: number;
}

/** That it was late once is over, too. */
const touchText = `update jobs set leased_until = ? + coalesce(?, lease_ms, ?), reason = null
  where id = ? and tier is null and state = 'running' and (? is null or claim_token = ?)
  returning leased_until`;

/**
 * Begins the lease of a running job anew. One that has run out, but was not taken back yet, holds again:
 * being late alone loses no claim.
 *
 * @returns until when it holds
 */
export async function touchJob(db: Database, ref: JobRef, touching: Touching): Promise<Date> {
  const { at, lease, defaultLeaseMs } = touching;
  const { id, token } = readRef(ref);
  const leaseMs = lease === undefined ? null : readLeaseMs(lease);
  // One statement: it is asked often, and mostly there is nothing to refuse.
  const values = [at, leaseMs, defaultLeaseMs, id, token, token];
  const [held] = await queryRaw<{ leased_until: number }>(db, touchText, values);
  if (held !== undefined) return new Date(held.leased_until);
  throw wrongState(await findJob(db, ref), 'touch');
}
