import type { ExpiredClaim } from '../../store/contract/jobs.ts';
import type { Store, StoreSession } from '../../store/contract/store.ts';
import { isInstant } from '../../system/base/values.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import { endRunOfClaim } from '../settle/by-caller.ts';
import { decideRetry, LEASE_GRACE_MS, type PolicyOfName, policyOfJob } from '../settle/retry-policy.ts';
import { toTransition } from '../settle/transition.ts';
import { releaseClaims } from './claim.ts';

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
 * Takes back jobs whose claim was not renewed in time, whether its holder lives or not: its late end is
 * refused. A worker of the runner is first given the time for another renewal, as being late alone loses
 * no claim: the log may have been locked for longer than a lease, the clock set, the machine stopped.
 *
 * @param policies asked only if there is something to take back
 * @param now asked before and after the log's lock is waited for: who is no worker and had to wait, too,
 *   is left for another look
 * @returns how many were taken back
 */
export async function endExpiredLeases(
  store: Store,
  now: () => number,
  settings: LeaseSettings,
  policies: () => Promise<PolicyOfName>,
): Promise<number> {
  const before = now();
  if ((await store.claims.expired(before, LEASE_GRACE_MS)).length === 0) return 0;
  const handlerPolicy = await policies();
  return await store.transaction(async (session) => {
    const at = now();
    const expired = await session.claims.expired(at, LEASE_GRACE_MS);
    // For the lock of the whole log, or of rows that a server has locked.
    const hasWaited = now() - before > LEASE_GRACE_MS / 2;
    let ended = 0;
    for (const claim of expired) {
      if (claim.workerId === null && hasWaited) continue;
      if (claim.workerId !== null && (await mayBeLate(session, claim))) {
        await extendLeaseOnce(session, claim, at, settings);
        continue;
      }
      await endExpired(session, claim, { at, settings, handlerPolicy });
      ended += 1;
    }
    return ended;
  });
}

/** It was not given more time yet; or its worker is dead, and its handler works on by itself. */
async function mayBeLate(session: StoreSession, claim: ExpiredClaim): Promise<boolean> {
  return claim.job.lease_extended === 0 || (await isOrphan(session, claim));
}

/** Whoever looks for what died leaves it alone until its time limit. */
async function isOrphan(session: StoreSession, { job, workerId }: ExpiredClaim): Promise<boolean> {
  const run = await session.runs.running(job.id);
  const [worker] = workerId === null ? [] : await session.workers.byId([workerId]);
  if (worker === undefined || run?.pid == null) return false;
  const { host, boot_id: bootId } = worker;
  const { pid, startTicks } = run;
  const ofWorker = { host, bootId, pid: worker.pid, startTicks: worker.pid_start_ticks };
  const isDead = checkLiveness(ofWorker) === 'dead';
  return isDead && checkLiveness({ host, bootId, pid, startTicks }) === 'alive';
}

async function extendLeaseOnce(
  session: StoreSession,
  { job }: ExpiredClaim,
  at: number,
  { leaseMs }: LeaseSettings,
): Promise<void> {
  const moreMs = Math.max(2 * beatMs(job.lease_ms ?? leaseMs), LEASE_GRACE_MS);
  await session.claims.extend(job.id, at + moreMs);
}

function describeExpiry(expiresAt: number | null): string {
  // Of a job that was claimed by plain SQL it can be anything.
  const at = isInstant(expiresAt) ? ` at ${new Date(expiresAt).toISOString()}` : '';
  return `its lease expired${at} without being renewed`;
}

interface Ending {
  readonly at: number;
  readonly settings: LeaseSettings;
  readonly handlerPolicy: PolicyOfName;
}

async function endExpired(
  session: StoreSession,
  { job, workerId }: ExpiredClaim,
  { at, settings: { missedCap }, handlerPolicy }: Ending,
): Promise<void> {
  const token = job.claim_token as string;
  const detail = describeExpiry(job.lease_expires_at);
  await session.events.record([{ at, event: 'job-lease-expired', workerId, jobId: job.id, detail }]);
  // Nothing of it has begun, as far as anybody knows: its worker may have died before it did.
  if (job.state === 'claimed') return await releaseClaims(session, [{ id: job.id, token }], at);
  const policy = policyOfJob(job.retry, handlerPolicy(job.name));
  const ended = { outcome: 'crashed', attempt: job.attempts, isRetryable: true, at } as const;
  const decided = toTransition(decideRetry(policy, ended));
  // Who is no worker of the runner may just have been slow: the next one gets it at once.
  const isAtOnce = decided.kind === 'retry' && workerId === null;
  const transition = isAtOnce ? { ...decided, runAt: at } : decided;
  const context = { missedCap };
  await endRunOfClaim(session, job, transition, {
    at,
    reason: detail,
    context,
    outcome: 'crashed',
  });
}
