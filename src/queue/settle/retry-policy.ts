import type { Handlers } from '../../discovery/handlers.ts';
import { defaultRetryDelay, type ScriptOptions, type Settings } from '../../settings/settings.ts';
import type { SpooledPolicy } from '../../store/spool/read.ts';
import type { JobState, Outcome } from '../../store/words.ts';
import { lastInstantMs } from '../../system/base/values.ts';

/** How often a job is tried, and when it is tried again. */
export interface RetryPolicy extends SpooledPolicy {
  /** How many tries a crash leaves at least; without it a crash leaves as many as any failure. */
  readonly crashTries?: number;
}

/** How long after its lease a claim ends whose holder is no worker of the runner. */
export const LEASE_GRACE_MS = 2_000;

/** Jobs of a handler fail one by one: the failure counts as over once none has failed for an hour. */
export const CALM_MS = 60 * 60_000;

/** The policy of a script or handler; a missing one has the defaults. */
export function policyOf({ retries, retryDelay, onCrash }: ScriptOptions = {}): RetryPolicy {
  return {
    maxAttempts: 1 + (retries ?? 0),
    delay: retryDelay ?? defaultRetryDelay,
    onCrash: onCrash ?? null,
  };
}

/** The policy for the queued jobs of a name, by their handler or the settings. */
export type PolicyOfName = (name: string) => RetryPolicy;

/** Looks for the handlers and loads their code only on demand: most calls end no try. */
export function createPolicies(root: string, settings: Settings): () => Promise<PolicyOfName> {
  let opened: Promise<Handlers> | null = null;
  return async () => {
    const { openHandlers } = await import('../../discovery/handlers.ts');
    opened ??= openHandlers(root, settings);
    const { optionsOf } = await opened;
    return (name) => policyOf(optionsOf(name));
  };
}

/** One try that has ended. */
interface EndedTry {
  readonly outcome: Outcome;
  /** 1 for the first. */
  readonly attempt: number;
  /** False: another try would end alike, as with a script that is refused. */
  readonly isRetryable: boolean;
  /** When it ended, or when that became known; epoch milliseconds. */
  readonly at: number;
}

/** The next state of the job; `runAt` is when its next try is due. */
export type RetryDecision =
  | { readonly state: Extract<JobState, 'finished' | 'failed' | 'cancelled'> }
  | { readonly state: 'retrying'; readonly runAt: number };

/** The random part of a grown delay, so that jobs that failed together are not retried together. */
const JITTER = 0.25;

/**
 * Pure except for chance. A crash counts as a try: a job that crashes its machine must not do so for ever.
 *
 * @param random returns a number from 0 up to, but not including, 1
 */
export function decideRetry(policy: RetryPolicy, ended: EndedTry, random = Math.random): RetryDecision {
  if (ended.outcome === 'succeeded') return { state: 'finished' };
  if (ended.outcome === 'stopped') return { state: 'cancelled' };
  if (ended.outcome === 'crashed' && policy.onCrash === 'skip') return { state: 'cancelled' };
  if (!ended.isRetryable || ended.attempt >= allowedTries(policy, ended)) return { state: 'failed' };
  const runAt = ended.at + delayMs(policy, ended.attempt, random);
  return { state: 'retrying', runAt: Math.min(runAt, lastInstantMs) };
}

function allowedTries(policy: RetryPolicy, { outcome }: EndedTry): number {
  const { maxAttempts, onCrash, crashTries = onCrash === 'retry' ? 2 : 1 } = policy;
  if (outcome !== 'crashed') return maxAttempts;
  return onCrash === 'fail' ? 0 : Math.max(maxAttempts, crashTries);
}

function delayMs({ delay }: RetryPolicy, attempt: number, random: () => number): number {
  const { firstMs, factor, longestMs } = delay;
  if (factor === 1) return firstMs;
  const grownMs = Math.min(firstMs * factor ** (attempt - 1), longestMs);
  return Math.round(grownMs * (1 - JITTER * random()));
}
