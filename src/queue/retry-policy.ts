import { defaultRetryDelay } from '../config/retry-delay.ts';
import type { CrashPolicy, ScriptOptions } from '../config/script-options.ts';
import type { JobState, Outcome } from '../store/schema.ts';

/** How often a job is tried, as its row holds it. */
export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly retryDelayMs: number;
  readonly retryFactor: number;
  readonly retryLongestMs: number;
  readonly onCrash: CrashPolicy | null;
}

/** One try that has ended. */
export interface EndedTry {
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
  return { state: 'retrying', runAt: ended.at + delayMs(policy, ended.attempt, random) };
}

function allowedTries({ maxAttempts, onCrash }: RetryPolicy, { outcome }: EndedTry): number {
  if (outcome !== 'crashed') return maxAttempts;
  if (onCrash === 'fail') return 0;
  return onCrash === 'retry' ? Math.max(maxAttempts, 2) : maxAttempts;
}

function delayMs(policy: RetryPolicy, attempt: number, random: () => number): number {
  const { retryDelayMs, retryFactor, retryLongestMs } = policy;
  if (retryFactor === 1) return retryDelayMs;
  const grownMs = Math.min(retryDelayMs * retryFactor ** (attempt - 1), retryLongestMs);
  return Math.round(grownMs * (1 - JITTER * random()));
}
