import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import { endClaim, selectJob } from './end-claim.ts';
import { judgeTry, toPolicy } from './retry-policy.ts';

/**
 * A claim is over only this long after its lease: its holder's renewal may have waited for the log
 * as long as whoever looks.
 */
export const LEASE_GRACE_MS = 2_000;

/** Renews all claims of a worker; each by its own lease. */
export async function renewLeases(
  db: Database,
  workerId: number,
  { at, defaultLeaseMs }: { readonly at: number; readonly defaultLeaseMs: number },
): Promise<void> {
  await queryRaw(
    db,
    `update jobs set leased_until = ? + coalesce(lease_ms, ?)
     where leased_until is not null and claimed_by = ? and tier is null`,
    [at, defaultLeaseMs, workerId],
  );
}

/** Whether any claim's lease has run out: one look at an index that is nearly empty. */
export async function hasExpiredLease(db: Database, at: number): Promise<boolean> {
  return (await selectExpired(db, at)).length > 0;
}

/**
 * Takes back jobs whose claim was not renewed in time, whether its holder lives or not: its late end
 * is refused. How many.
 *
 * @param now asked before and after the log's lock is waited for: what expired while everybody had to
 *   wait is left for another look
 */
export async function endExpiredLeases(
  db: Database,
  now: () => number,
  missedCap: number,
): Promise<number> {
  const before = now();
  if (!(await hasExpiredLease(db, before))) return 0;
  return await db.transaction().execute(async (transaction) => {
    if (now() - before > LEASE_GRACE_MS / 2) return 0;
    const expired = await selectExpired(transaction, before);
    for (const { id } of expired) await endExpired(transaction, id, before, missedCap);
    return expired.length;
  });
}

async function selectExpired(db: Database, at: number): Promise<{ readonly id: number }[]> {
  return await queryRaw(
    db,
    `select id from jobs where leased_until is not null and leased_until < ? and tier is null
     and state = 'running'`,
    [at - LEASE_GRACE_MS],
  );
}

async function endExpired(db: Database, id: number, at: number, missedCap: number): Promise<void> {
  const job = await selectJob(db, id);
  const policy = toPolicy(job);
  const verdict = judgeTry(policy, {
    outcome: 'crashed',
    attempt: job.attempts,
    isRetryable: true,
    at,
  });
  const reason = `its lease ran out at ${new Date(job.leased_until as number).toISOString()} without having been renewed`;
  const facts = { at, workerId: job.claimed_by, reason, missedCap, counts: 'timeouts' } as const;
  // Who is no worker of the runner may just have been slow: the next one gets it at once.
  const runAt = job.claimed_by === null ? at : verdict.state === 'retrying' ? verdict.runAt : at;
  if (verdict.state === 'retrying') {
    await endClaim(db, job, { kind: 'retry', runAt, isTry: true }, facts);
  } else await endClaim(db, job, { kind: 'fail' }, facts);
}
