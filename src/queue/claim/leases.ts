import type { ExpiredClaim } from '../../store/statements/job-rows.ts';
import { processOf } from '../../store/statements/workers.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { isInstant } from '../../system/base/values.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import { policyOfJob } from '../settle/own-retry.ts';
import { decideRetry, LEASE_GRACE_MS, type PolicyOfName } from '../settle/retry-policy.ts';
import { endForOthers, findStop } from '../settle/settle.ts';
import { toTransition } from '../settle/transition.ts';
import { releaseClaims } from './claim.ts';

/** How many times a worker renews a claim during its lease, so that a few late renewals do not lose it. */
const BEATS_PER_LEASE = 10;
const LONGEST_BEAT_MS = 5_000;

/** Time between two renewals of a worker, in milliseconds. */
export function beatMs(leaseMs: number): number {
  return Math.min(leaseMs / BEATS_PER_LEASE, LONGEST_BEAT_MS);
}

/** Settings for leases and for jobs whose lease has ended. */
interface LeaseSettings {
  /** The lease of jobs that have none of their own. */
  readonly leaseMs: number;
  readonly missedCap: number;
}

/**
 * Takes back jobs whose claim was not renewed in time, even if its holder lives: its late report is refused. A worker
 * of the runner first gets the time for another renewal, because being late alone loses no claim: the log may have been
 * locked for longer than a lease, the clock set, or the machine stopped.
 *
 * @param policies called only if there is something to take back
 * @param now called before and after the wait for the log's lock; if the wait was long, a claim of a holder that is no
 * worker is left for a later look, because that holder had to wait, too
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
    // It waited for the lock of the whole log, or of rows that a server has locked.
    const hasWaited = now() - before > LEASE_GRACE_MS / 2;
    let ended = 0;
    for (const claim of expired) {
      if (claim.workerId === null && hasWaited) continue;
      if (claim.workerId !== null && (await mayBeLate(session, claim))) {
        const moreMs = Math.max(2 * beatMs(claim.job.lease_ms ?? settings.leaseMs), LEASE_GRACE_MS);
        await session.claims.extend(claim.job.id, at + moreMs);
        continue;
      }
      await endExpired(session, claim, { at, settings, handlerPolicy });
      ended += 1;
    }
    return ended;
  });
}

/**
 * True if the claim was not given more time yet, or if its worker is dead while its handler still works: the recovery of
 * dead workers leaves such a run alone until its time limit.
 */
async function mayBeLate(session: StoreSession, { job, workerId }: ExpiredClaim): Promise<boolean> {
  if (job.lease_extended === 0) return true;
  const run = await session.runs.running(job.id);
  const [worker] = workerId === null ? [] : await session.workers.byId([workerId]);
  if (worker === undefined || run?.pid == null) return false;
  const ofWorker = processOf(worker);
  const { pid, startTicks } = run;
  return checkLiveness(ofWorker) === 'dead' && checkLiveness({ ...ofWorker, pid, startTicks }) === 'alive';
}

function describeExpiry(expiresAt: number | null): string {
  // A job claimed by plain SQL can hold any value here.
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
  // As far as is known, nothing of it has begun: its worker may have died before.
  if (job.state === 'claimed') return await releaseClaims(session, [{ id: job.id, token }], at);
  const policy = policyOfJob(job.retry, handlerPolicy(job.name));
  const run = workerId === null ? null : await session.runs.running(job.id);
  const stopped = run === null ? null : await findStop(session, { runId: run.id, jobId: job.id }, detail);
  const outcome = stopped === null ? 'crashed' : 'stopped';
  const ended = { outcome, attempt: job.attempts, isRetryable: true, at } as const;
  const decided = toTransition(decideRetry(policy, ended));
  // A holder that is no worker of the runner may just have been slow, so the next claimer gets the job at once.
  const isAtOnce = decided.kind === 'retry' && workerId === null;
  const transition = isAtOnce ? { ...decided, runAt: at } : decided;
  await endForOthers(session, { job, transition, at, reason: stopped ?? detail }, outcome, { missedCap });
}
