import { lastInstantMs } from '../../base/values.ts';
import { type CrashPolicy, defaultRetryDelay, type ScriptOptions } from '../../settings/readers.ts';
import type { JobRow, JobState, Outcome } from '../../store/schema.ts';

/** How often a job is tried, as its row holds it. */
export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly retryDelayMs: number;
  readonly retryFactor: number;
  readonly retryLongestMs: number;
  readonly onCrash: CrashPolicy | null;
  /** How many tries a crash leaves at least; without it only as many as any failure does. */
  readonly crashTries?: number;
}

/**
 * A job of the queue that its worker died under is tried again, as nobody else will see to it; but one
 * that brings down whoever touches it must not do so for ever.
 */
const QUEUE_CRASH_TRIES = 10;

/** A job's own policy, as its row holds it once it was claimed. */
export function toPolicy(job: JobRow): RetryPolicy {
  return {
    maxAttempts: job.max_attempts ?? 1,
    retryDelayMs: job.retry_delay_ms ?? defaultRetryDelay.firstMs,
    retryFactor: job.retry_factor,
    retryLongestMs: job.retry_longest_ms,
    onCrash: job.on_crash,
    ...(job.tier === null && { crashTries: QUEUE_CRASH_TRIES }),
  };
}

/** One try that has ended. */
interface EndedTry {
  readonly outcome: Outcome;
  /** 1 for the first. */
  readonly attempt: number;
  /** False: another try would end alike, as of a script that is refused. */
  readonly isRetryable: boolean;
  /** When it ended, or that became known; epoch milliseconds. */
  readonly at: number;
}

/** What becomes of the job; `runAt` is when its next try is due. */
export type Verdict =
  | { readonly state: Extract<JobState, 'finished' | 'failed' | 'cancelled'> }
  | { readonly state: 'retrying'; readonly runAt: number };

/** Of a grown delay this part is left to chance, so that what failed together is not retried together. */
const JITTER = 0.25;

export function policyOf({ retries, retryDelay, onCrash }: ScriptOptions): RetryPolicy {
  const { firstMs, factor, longestMs } = retryDelay ?? defaultRetryDelay;
  return {
    maxAttempts: 1 + (retries ?? 0),
    retryDelayMs: firstMs,
    retryFactor: factor,
    retryLongestMs: longestMs,
    onCrash: onCrash ?? null,
  };
}

/** A script's policy as a job's row holds it. */
export function toPolicyColumns({ options }: { readonly options: ScriptOptions }) {
  const policy = policyOf(options);
  return {
    max_attempts: policy.maxAttempts,
    retry_delay_ms: policy.retryDelayMs,
    retry_factor: policy.retryFactor,
    retry_longest_ms: policy.retryLongestMs,
    on_crash: policy.onCrash,
  };
}

/**
 * Pure but for chance. A crash counts as a try: what crashes its machine must not do so for ever.
 *
 * @param random from 0 up to, but not including, 1
 */
export function judgeTry(policy: RetryPolicy, ended: EndedTry, random = Math.random): Verdict {
  if (ended.outcome === 'succeeded') return { state: 'finished' };
  if (ended.outcome === 'crashed' && policy.onCrash === 'skip') return { state: 'cancelled' };
  if (!ended.isRetryable || ended.attempt >= allowedTries(policy, ended))
    return { state: 'failed' };
  const runAt = ended.at + delayMs(policy, ended.attempt, random);
  return { state: 'retrying', runAt: Math.min(runAt, lastInstantMs) };
}

function allowedTries(policy: RetryPolicy, { outcome }: EndedTry): number {
  const { maxAttempts, onCrash, crashTries = onCrash === 'retry' ? 2 : 1 } = policy;
  if (outcome !== 'crashed') return maxAttempts;
  return onCrash === 'fail' ? 0 : Math.max(maxAttempts, crashTries);
}

function delayMs(policy: RetryPolicy, attempt: number, random: () => number): number {
  const { retryDelayMs, retryFactor, retryLongestMs } = policy;
  if (retryFactor === 1) return retryDelayMs;
  const grownMs = Math.min(retryDelayMs * retryFactor ** (attempt - 1), retryLongestMs);
  return Math.round(grownMs * (1 - JITTER * random()));
}
