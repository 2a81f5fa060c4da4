import { type RetryDelay, readRetryDelay } from '../../settings/readers.ts';
import type { RetryPolicy } from './retry-policy.ts';

/**
 * A queued job whose worker died is tried again, because nobody else cares for it. But a job that brings down each of
 * its workers must not do so for ever.
 */
const QUEUE_CRASH_TRIES = 10;

/** The policy of a queued job; its handler fills what the job leaves out. */
export function policyOfJob(retry: string | null, handler: RetryPolicy): RetryPolicy {
  const own = readRetry(retry ?? '');
  return {
    maxAttempts: own.retries === null ? handler.maxAttempts : own.retries + 1,
    delay: own.delay ?? handler.delay,
    onCrash: handler.onCrash,
    crashTries: QUEUE_CRASH_TRIES,
  };
}

/** The form in which a job's row stores its own retries: `3`, `3 5m`, `- exponential 30s 6h`. */
export function writeRetry(retries: number | undefined, delay: string | undefined): string | null {
  if (retries === undefined && delay === undefined) return null;
  return [retries ?? '-', ...(delay === undefined ? [] : [delay.trim()])].join(' ');
}

interface OwnRetry {
  readonly retries: number | null;
  readonly delay: RetryDelay | null;
  readonly isValid: boolean;
}

export const MOST_RETRIES = 100;

/**
 * Reads the form that {@link writeRetry} writes. A wrong value, which only plain SQL can write, is ignored: its job fails
 * before its first try, unless the value was written after the job had begun.
 */
export function readRetry(text: string): OwnRetry {
  const [, first = '', rest = ''] = /^\s*(\S*)\s*(.*)$/s.exec(text) ?? [];
  const retries = /^\d{1,3}$/.test(first) ? Number(first) : null;
  const read = rest === '' ? null : readRetryDelay(rest);
  const delay = read !== null && 'value' in read ? read.value : null;
  const isCount = retries === null ? first === '' || first === '-' : retries <= MOST_RETRIES;
  return { retries, delay, isValid: isCount && (rest === '' || delay !== null) };
}
