import type { JobHead } from './job-columns.ts';

/** A job as it is seen before it is claimed. */
export interface WaitingJob {
  readonly id: number;
  readonly name: string;
  readonly priority: number;
  readonly run_at: number;
  readonly concurrency_key: string | null;
}

export interface ExpiredClaim {
  readonly job: JobHead;
  readonly workerId: number | null;
}

/** Cap of the attempt counter; a row written by plain SQL may hold any number. */
export const MOST_COUNTED = Number.MAX_SAFE_INTEGER;

type Turn = Pick<WaitingJob, 'id' | 'priority' | 'run_at'>;

/** Which job is next. */
export function compareTurns(one: Turn, other: Turn): number {
  return other.priority - one.priority || one.run_at - other.run_at || one.id - other.id;
}

/** A dot ends the worker's number, and a slash is the character behind it. */
export const isOfWorker = 'claim_token is not null and claim_token >= ? and claim_token < ?';

/** The values of that. */
export function tokensOf(workerId: number): readonly string[] {
  return [`${workerId}.`, `${workerId}/`];
}

/** A claimed job that another program has moved on, while the process of its worker may still run. */
export const isEndedElsewhere = "state not in ('claimed', 'running')";

/** The worker that a token names; null: it is that of somebody else. */
export function workerOf(token: string): number | null {
  const [, number] = /^(\d+)\.\d+$/.exec(token) ?? [];
  return number === undefined ? null : Number(number);
}

/** The jobs whose leases have expired. A claim that is not a worker's has `graceMs` more. */
export function expiredAmong(jobs: readonly JobHead[], at: number, graceMs: number): ExpiredClaim[] {
  return jobs
    .map((job) => ({ job, workerId: workerOf(job.claim_token as string) }))
    .filter(({ job, workerId }) => workerId !== null || (job.lease_expires_at as number) < at - graceMs);
}

/** The instants at which time alone may change something. */
interface Moments {
  readonly due: number | null;
  readonly leaseEnd: number | null;
  readonly pauseEnd: number | null;
}

/** When to look again; null: nothing happens by itself. */
export function nextWakeAmong({ due, leaseEnd, pauseEnd }: Moments, at: number, graceMs: number): number | null {
  const moments = [due, leaseLook(leaseEnd, at, graceMs), pauseEnd].filter((each) => each !== null);
  return moments.length === 0 ? null : Math.min(...moments);
}

/** A lease that has expired already was left for another look. At its last instant it has not expired yet. */
function leaseLook(end: number | null, at: number, graceMs: number): number | null {
  if (end === null) return null;
  return end >= at ? end + 1 : at + graceMs / 2;
}
