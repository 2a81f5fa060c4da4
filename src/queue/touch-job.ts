import { sql } from 'kysely';
import type { Database } from '../store/open-store.ts';
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
  const query = db
    .updateTable('jobs')
    .set({ leased_until: sql<number>`${at} + coalesce(${leaseMs}, lease_ms, ${defaultLeaseMs})` })
    .where('id', '=', id)
    .where('tier', 'is', null)
    .where('state', '=', 'running')
    .returning('leased_until');
  // One statement: it is asked often, and mostly there is nothing to refuse.
  const held = await (token === null ? query : query.where('claim_token', '=', token)).execute();
  const until = held[0]?.leased_until ?? null;
  if (until !== null) return new Date(until);
  throw wrongState(await findJob(db, ref), 'touch');
}
