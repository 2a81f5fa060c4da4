import { isInstant } from '../../base/values.ts';
import { checkLiveness } from '../../process/identity.ts';
import { recordActivity } from '../../store/events.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import { judgeTry, toPolicy } from '../settle/retry-policy.ts';
import { endClaim, selectJob, toEnding } from '../settle/settle-run.ts';
import { type Expired, hasExpiredLease, LEASE_GRACE_MS, selectExpired } from './waiting.ts';

/** A worker renews its leases so often while one lasts, so that a few late renewals do not lose it. */
const BEATS_PER_LEASE = 10;
const LONGEST_BEAT_MS = 5_000;

/** How long a worker waits between two renewals. */
export function beatMs(leaseMs: number): number {
  return Math.min(leaseMs / BEATS_PER_LEASE, LONGEST_BEAT_MS);
}

/** What the settings say of leases, and of what follows the end of one. */
interface LeaseSettings {
  /** Of jobs that say nothing. */
  readonly leaseMs: number;
  readonly missedCap: number;
}

/**
 * Renews all claims of a worker; each by its own lease.
 *
 * @returns the shortest of these leases; null: it holds no claim
 */
export async function renewLeases(
  db: Database,
  workerId: number,
  { at, defaultLeaseMs }: { readonly at: number; readonly defaultLeaseMs: number },
): Promise<number | null> {
  const renewed = await queryRaw<{ lease_ms: number | null }>(
    db,
    `update jobs set leased_until = ? + coalesce(lease_ms, ?), reason = null
     where leased_until is not null and claimed_by = ? and tier is null returning lease_ms`,
    [at, defaultLeaseMs, workerId],
  );
  const leases = renewed.map(({ lease_ms }) => lease_ms ?? defaultLeaseMs);
  return leases.length === 0 ? null : Math.min(...leases);
}

/**
 * Takes back jobs whose claim was not renewed in time, whether its holder lives or not: its late end is
 * refused. A worker of the runner is first given the time for another renewal, as being late alone loses
 * no claim: the log may have been locked for longer than a lease, the clock set, the machine stopped.
 *
 * @param now asked before and after the log's lock is waited for: who is no worker and had to wait, too,
 *   is left for another look
 * @returns how many were taken back
 */
export async function endExpiredLeases(
  db: Database,
  now: () => number,
  settings: LeaseSettings,
): Promise<number> {
  const before = now();
  if (!(await hasExpiredLease(db, before))) return 0;
  return await db.transaction().execute(async (transaction) => {
    const at = now();
    const hasWaited = at - before > LEASE_GRACE_MS / 2;
    let ended = 0;
    for (const expired of await selectExpired(transaction, at)) {
      if (expired.claimed_by === null && hasWaited) continue;
      if (expired.claimed_by !== null && (await mayBeLate(transaction, expired))) {
        await giveMoreTime(transaction, expired, at, settings);
        continue;
      }
      await endExpired(transaction, expired.id, at, settings);
      ended += 1;
    }
    return ended;
  });
}

/** It was not given more time yet; or its worker is dead, and its handler works on by itself. */
async function mayBeLate(db: Database, { id, reason }: Expired): Promise<boolean> {
  return reason === null || (await isOrphan(db, id));
}

interface RunningRow {
  readonly host: string;
  readonly boot_id: string | null;
  readonly worker_pid: number;
  readonly worker_ticks: number | null;
  readonly pid: number | null;
  readonly ticks: number | null;
}

/** Whoever looks for what died leaves it alone until its time limit. */
async function isOrphan(db: Database, jobId: number): Promise<boolean> {
  const [run] = await queryRaw<RunningRow>(
    db,
    `select workers.host, workers.boot_id, workers.pid as worker_pid,
       workers.pid_start_ticks as worker_ticks, runs.pid, runs.pid_start_ticks as ticks
     from runs join workers on workers.id = runs.worker_id
     where runs.job_id = ? and runs.outcome = 'running'`,
    [jobId],
  );
  if (run === undefined || run.pid === null) return false;
  const { host, boot_id: bootId, pid, ticks: startTicks } = run;
  const worker = { host, bootId, pid: run.worker_pid, startTicks: run.worker_ticks };
  const isDead = checkLiveness(worker) === 'dead';
  return isDead && checkLiveness({ host, bootId, pid, startTicks }) === 'alive';
}

async function giveMoreTime(
  db: Database,
  { id, claimed_by: workerId, lease_ms, leased_until, reason: told }: Expired,
  at: number,
  { leaseMs }: LeaseSettings,
): Promise<void> {
  const reason = told ?? describeExpiry(leased_until as number);
  const moreMs = Math.max(2 * beatMs(lease_ms ?? leaseMs), LEASE_GRACE_MS);
  await queryRaw(db, 'update jobs set leased_until = ?, reason = ? where id = ?', [
    ...[at + moreMs, reason, id],
  ]);
  if (told !== null) return;
  await recordActivity(db, { at, event: 'job-lease-expired', workerId, jobId: id, detail: reason });
}

function describeExpiry(leasedUntil: number): string {
  // Of a job that was claimed by plain SQL it can be anything.
  const at = isInstant(leasedUntil) ? ` at ${new Date(leasedUntil).toISOString()}` : '';
  return `its lease ran out${at} without having been renewed`;
}

async function endExpired(
  db: Database,
  id: number,
  at: number,
  { missedCap }: LeaseSettings,
): Promise<void> {
  const job = await selectJob(db, id);
  const ended = {
    outcome: 'crashed',
    attempt: job.attempts,
    isRetryable: true,
    at,
  } as const;
  const ending = toEnding(judgeTry(toPolicy(job), ended));
  const reason = job.reason ?? describeExpiry(job.leased_until as number);
  const facts = { at, workerId: job.claimed_by, reason, missedCap, counts: 'timeouts' } as const;
  // Who is no worker of the runner may just have been slow: the next one gets it at once.
  const isAtOnce = ending.kind === 'retry' && job.claimed_by === null;
  await endClaim(db, job, isAtOnce ? { ...ending, runAt: at } : ending, facts);
}
