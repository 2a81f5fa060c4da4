import type { Handlers } from '../../discovery/handlers.ts';
import {
  type CrashPolicy,
  defaultRetryDelay,
  type RetryDelay,
  readRetryDelay,
  type ScriptOptions,
} from '../../settings/readers.ts';
import type { Settings } from '../../settings/settings.ts';
import type { JobState, Outcome } from '../../store/words.ts';
import { lastInstantMs } from '../../system/base/values.ts';

/** How often a job is tried, and when again. */
export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly delay: RetryDelay;
  readonly onCrash: CrashPolicy | null;
  /** How many tries a crash leaves at least; without it only as many as any failure does. */
  readonly crashTries?: number;
}

/**
 * A job of the queue that its worker died under is tried again, as nobody else will see to it; but one
 * that brings down whoever touches it must not do so for ever.
 */
const QUEUE_CRASH_TRIES = 10;

/** A claim of who is no worker of the runner is over only this long after its lease. */
export const LEASE_GRACE_MS = 2_000;

/** Jobs of a handler fail one by one: they do so no longer once none has for an hour. */
export const CALM_MS = 60 * 60_000;

/** What a script or handler says of itself; nothing is known of one that is gone. */
export function policyOf({ retries, retryDelay, onCrash }: ScriptOptions = {}): RetryPolicy {
  return {
    maxAttempts: 1 + (retries ?? 0),
    delay: retryDelay ?? defaultRetryDelay,
    onCrash: onCrash ?? null,
  };
}

/** What is said of the queue's jobs of a name, by their handler or the settings. */
export type PolicyOfName = (name: string) => RetryPolicy;

/** The handlers are looked for, and their code is loaded, only once this is asked: most calls end no try. */
export function createPolicies(root: string, settings: Settings): () => Promise<PolicyOfName> {
  let opened: Promise<Handlers> | null = null;
  return async () => {
    const { openHandlers } = await import('../../discovery/handlers.ts');
    opened ??= openHandlers(root, settings);
    const { optionsOf } = await opened;
    return (name) => policyOf(optionsOf(name));
  };
}

/** A queued job's own policy; what it does not say itself, its handler says. */
export function policyOfJob(retry: string | null, handler: RetryPolicy): RetryPolicy {
  const own = retry === null ? { retries: null, delay: null } : readRetry(retry);
  return {
    maxAttempts: own.retries === null ? handler.maxAttempts : own.retries + 1,
    delay: own.delay ?? handler.delay,
    onCrash: handler.onCrash,
    crashTries: QUEUE_CRASH_TRIES,
  };
}

/** How a job's row holds what it says of further tries: `3`, `3 5m`, `- exponential 30s 6h`. */
export function writeRetry(retries: number | undefined, delay: string | undefined): string | null {
  if (retries === undefined && delay === undefined) return null;
  return [retries ?? '-', ...(delay === undefined ? [] : [delay.trim()])].join(' ');
}

interface OwnRetry {
  readonly retries: number | null;
  readonly delay: RetryDelay | null;
}

export const MOST_RETRIES = 100;

/** Whether a row says this in a way that {@link writeRetry} writes; plain SQL may have put there anything. */
export function isRetry(text: string): boolean {
  const [, first = '', rest = ''] = /^\s*(\S*)\s*(.*)$/s.exec(text) ?? [];
  const isCount = first === '' || first === '-' || (/^\d{1,3}$/.test(first) && Number(first) <= MOST_RETRIES);
  return isCount && (rest === '' || 'value' in readRetryDelay(rest));
}

/** What is wrong counts as not said: its job fails before its first try, unless that was written after it had begun. */
export function readRetry(text: string): OwnRetry {
  const [, first = '', rest = ''] = /^\s*(\S+)\s*(.*)$/s.exec(text) ?? [];
  const delay = rest === '' ? null : readRetryDelay(rest);
  return {
    retries: /^\d{1,3}$/.test(first) ? Number(first) : null,
    delay: delay !== null && 'value' in delay ? delay.value : null,
  };
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
export type RetryDecision =
  | { readonly state: Extract<JobState, 'finished' | 'failed' | 'cancelled'> }
  | { readonly state: 'retrying'; readonly runAt: number };

/** Of a grown delay this part is left to chance, so that what failed together is not retried together. */
const JITTER = 0.25;

/**
 * Pure but for chance. A crash counts as a try: what crashes its machine must not do so for ever.
 *
 * @param random from 0 up to, but not including, 1
 */
export function decideRetry(policy: RetryPolicy, ended: EndedTry, random = Math.random): RetryDecision {
  if (ended.outcome === 'succeeded') return { state: 'finished' };
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
