import fc from 'fast-check';
import { expect, test } from 'vitest';
import { judgeTry, policyOf, toPolicy } from '../../src/queue/settle/retry-policy.ts';
import type { JobRow, Outcome } from '../../src/store/schema.ts';

const AT = Date.UTC(2026, 10, 1, 12);
const MINUTE = 60_000;

const ended = { outcome: 'failed', attempt: 1, isRetryable: true, at: AT } as const;

test('a success ends the job, whatever tries are left', () => {
  const policy = policyOf({ retries: 3 });
  expect(judgeTry(policy, { ...ended, outcome: 'succeeded' })).toEqual({ state: 'finished' });
});

test('without retries the first failure is the last', () => {
  expect(judgeTry(policyOf({}), ended)).toEqual({ state: 'failed' });
});

test('a fixed delay stays as it is, until the tries are used up', () => {
  const retryDelay = { firstMs: 5 * MINUTE, factor: 1, longestMs: 5 * MINUTE };
  const policy = policyOf({ retries: 2, retryDelay });
  const runAt = AT + 5 * MINUTE;
  expect(judgeTry(policy, ended)).toEqual({ state: 'retrying', runAt });
  expect(judgeTry(policy, { ...ended, attempt: 2 })).toEqual({ state: 'retrying', runAt });
  expect(judgeTry(policy, { ...ended, attempt: 3 })).toEqual({ state: 'failed' });
});

test('without a delay of its own a retry waits for a minute', () => {
  const verdict = judgeTry(policyOf({ retries: 1 }), ended);
  expect(verdict).toEqual({ state: 'retrying', runAt: AT + MINUTE });
});

test('an exponential delay doubles up to its longest, and chance shortens it by a quarter at most', () => {
  const retryDelay = { firstMs: MINUTE, factor: 2, longestMs: 10 * MINUTE };
  const policy = policyOf({ retries: 100, retryDelay });
  const delays = (random: number) =>
    [1, 2, 3, 4, 5, 100].map((attempt) => {
      const verdict = judgeTry(policy, { ...ended, attempt }, () => random);
      return verdict.state === 'retrying' ? (verdict.runAt - AT) / MINUTE : verdict.state;
    });
  expect(delays(0)).toEqual([1, 2, 4, 8, 10, 10]);
  expect(delays(0.999_999_999)).toEqual([0.75, 1.5, 3, 6, 7.5, 7.5]);
});

test('what cannot end in another way is not tried again', () => {
  const refused = { ...ended, outcome: 'not-started', isRetryable: false } as const;
  expect(judgeTry(policyOf({ retries: 3 }), refused)).toEqual({ state: 'failed' });
});

test.each([
  // onCrash, retries, attempt, state
  [undefined, 0, 1, 'failed'],
  [undefined, 1, 1, 'retrying'],
  [undefined, 1, 2, 'failed'],
  ['retry', 0, 1, 'retrying'],
  ['retry', 0, 2, 'failed'],
  ['retry', 3, 2, 'retrying'],
  ['retry', 3, 4, 'failed'],
  ['skip', 3, 1, 'cancelled'],
  ['fail', 3, 1, 'failed'],
] as const)(
  'a crash with @on-crash %s, %i retries, at try %i: %s',
  (onCrash, retries, attempt, state) => {
    const policy = policyOf({ retries, ...(onCrash && { onCrash }) });
    expect(judgeTry(policy, { ...ended, outcome: 'crashed', attempt })).toMatchObject({ state });
  },
);

test('whatever the policy, a job that fails every time comes to an end, and no try is due in the past', () => {
  const outcome = fc.constantFrom<Outcome>(
    'failed',
    'timed-out',
    'killed',
    'crashed',
    'not-started',
  );
  const policy = fc.record({
    maxAttempts: fc.integer({ min: 1, max: 101 }),
    retryDelayMs: fc.integer({ min: 1, max: 2 ** 31 }),
    retryFactor: fc.constantFrom(1, 2),
    retryLongestMs: fc.integer({ min: 1, max: 2 ** 31 }),
    onCrash: fc.constantFrom('retry', 'skip', 'fail', null),
  });
  fc.assert(
    fc.property(policy, fc.infiniteStream(outcome), (given, outcomes) => {
      let attempt = 1;
      for (const each of outcomes) {
        const verdict = judgeTry(given, { ...ended, outcome: each, attempt });
        if (verdict.state !== 'retrying') break;
        expect(verdict.runAt).toBeGreaterThan(AT);
        attempt += 1;
      }
      expect(attempt).toBeLessThanOrEqual(Math.max(given.maxAttempts, 2));
    }),
  );
});

const row = {
  max_attempts: null,
  retry_delay_ms: null,
  retry_factor: 1,
  retry_longest_ms: MINUTE,
  on_crash: null,
} as const;

test.each([
  // of whom, onCrash, retries, outcome, how many tries there are in all
  [null, null, null, 'failed', 1],
  [null, null, 2, 'failed', 3],
  [null, null, null, 'crashed', 10],
  [null, null, 20, 'crashed', 21],
  [null, 'retry', null, 'crashed', 10],
  [null, 'fail', 20, 'crashed', 1],
  [null, null, null, 'timed-out', 1],
  ['hourly', null, null, 'crashed', 1],
  ['hourly', 'retry', null, 'crashed', 2],
] as const)(
  'of %s, on crash %s, retries %s, each %s: %i tries',
  (tier, onCrash, retries, outcome, tries) => {
    const max_attempts = retries === null ? null : retries + 1;
    const policy = toPolicy({ ...row, tier, on_crash: onCrash, max_attempts } as JobRow);
    const states = Array.from({ length: tries }, (_, index) => {
      return judgeTry(policy, { ...ended, outcome, attempt: index + 1 }).state;
    });
    expect(states).toEqual([...Array(tries - 1).fill('retrying'), 'failed']);
  },
);
