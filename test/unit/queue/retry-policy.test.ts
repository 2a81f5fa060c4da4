import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { policyOfJob, readRetry, writeRetry } from '../../../src/queue/settle/own-retry.ts';
import { decideRetry, policyOf } from '../../../src/queue/settle/retry-policy.ts';
import type { Outcome } from '../../../src/store/words.ts';

const AT = Date.UTC(2026, 10, 1, 12);
const MINUTE = 60_000;

const ended = { outcome: 'failed', attempt: 1, isRetryable: true, at: AT } as const;

test('a success ends the job, whatever tries are left', () => {
  const policy = policyOf({ retries: 3 });
  expect(decideRetry(policy, { ...ended, outcome: 'succeeded' })).toEqual({ state: 'finished' });
});

test('without retries the first failure is the last', () => {
  expect(decideRetry(policyOf({}), ended)).toEqual({ state: 'failed' });
});

test('a fixed delay stays as it is, until the tries are used up', () => {
  const retryDelay = { firstMs: 5 * MINUTE, factor: 1, longestMs: 5 * MINUTE };
  const policy = policyOf({ retries: 2, retryDelay });
  const runAt = AT + 5 * MINUTE;
  expect(decideRetry(policy, ended)).toEqual({ state: 'retrying', runAt });
  expect(decideRetry(policy, { ...ended, attempt: 2 })).toEqual({ state: 'retrying', runAt });
  expect(decideRetry(policy, { ...ended, attempt: 3 })).toEqual({ state: 'failed' });
});

test('without a delay of its own a retry waits for a minute', () => {
  const decision = decideRetry(policyOf({ retries: 1 }), ended);
  expect(decision).toEqual({ state: 'retrying', runAt: AT + MINUTE });
});

test('an exponential delay doubles up to its longest, and chance shortens it by a quarter at most', () => {
  const retryDelay = { firstMs: MINUTE, factor: 2, longestMs: 10 * MINUTE };
  const policy = policyOf({ retries: 100, retryDelay });
  const delays = (random: number) =>
    [1, 2, 3, 4, 5, 100].map((attempt) => {
      const decision = decideRetry(policy, { ...ended, attempt }, () => random);
      return decision.state === 'retrying' ? (decision.runAt - AT) / MINUTE : decision.state;
    });
  expect(delays(0)).toEqual([1, 2, 4, 8, 10, 10]);
  expect(delays(0.999_999_999)).toEqual([0.75, 1.5, 3, 6, 7.5, 7.5]);
});

test('a run that cannot end in another way is not tried again', () => {
  const refused = { ...ended, outcome: 'not-started', isRetryable: false } as const;
  expect(decideRetry(policyOf({ retries: 3 }), refused)).toEqual({ state: 'failed' });
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
] as const)('a crash with @on-crash %s, %i retries, at try %i: %s', (onCrash, retries, attempt, state) => {
  const policy = policyOf({ retries, ...(onCrash && { onCrash }) });
  expect(decideRetry(policy, { ...ended, outcome: 'crashed', attempt })).toMatchObject({ state });
});

test('whatever the policy, a job that fails every time comes to an end, and no try is due in the past', () => {
  const outcome = fc.constantFrom<Outcome>('failed', 'timed-out', 'killed', 'crashed', 'not-started');
  const policy = fc.record({
    maxAttempts: fc.integer({ min: 1, max: 101 }),
    delay: fc.record({
      firstMs: fc.integer({ min: 1, max: 2 ** 31 }),
      factor: fc.constantFrom(1, 2),
      longestMs: fc.integer({ min: 1, max: 2 ** 31 }),
    }),
    onCrash: fc.constantFrom('retry', 'skip', 'fail', null),
  });
  fc.assert(
    fc.property(policy, fc.infiniteStream(outcome), (given, outcomes) => {
      let attempt = 1;
      for (const each of outcomes) {
        const decision = decideRetry(given, { ...ended, outcome: each, attempt });
        if (decision.state !== 'retrying') break;
        expect(decision.runAt).toBeGreaterThan(AT);
        attempt += 1;
      }
      expect(attempt).toBeLessThanOrEqual(Math.max(given.maxAttempts, 2));
    }),
  );
});

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
] as const)('of %s, on crash %s, retries %s, each %s: %i tries', (tier, onCrash, retries, outcome, tries) => {
  const handler = policyOf({ ...(onCrash !== null && { onCrash }), ...(retries !== null && { retries }) });
  const policy = tier === null ? policyOfJob(null, handler) : handler;
  const states = Array.from({ length: tries }, (_, index) => {
    return decideRetry(policy, { ...ended, outcome, attempt: index + 1 }).state;
  });
  expect(states).toEqual([...Array(tries - 1).fill('retrying'), 'failed']);
});

describe('what a job says of its tries', () => {
  const handler = policyOf({ retries: 7, retryDelay: minutes(2) });

  test.each([
    // retries, delay, as its row holds it, how many tries there are, and how long the second one waits
    [undefined, undefined, null, 8, minutes(2)],
    [0, undefined, '0', 1, minutes(2)],
    [3, undefined, '3', 4, minutes(2)],
    [undefined, '5m', '- 5m', 8, minutes(5)],
    [3, ' 5m ', '3 5m', 4, minutes(5)],
    [
      ...([100, 'exponential 1m 1h', '100 exponential 1m 1h', 101] as const),
      { firstMs: MINUTE, factor: 2, longestMs: 60 * MINUTE },
    ],
  ] as const)('retries %s, delay %s', (retries, delay, text, maxAttempts, expected) => {
    expect(writeRetry(retries, delay)).toBe(text);
    expect(policyOfJob(text, handler)).toMatchObject({ maxAttempts, delay: expected });
  });

  test.each([
    ['', null, null, true],
    ['-', null, null, true],
    [' 3  5m ', 3, minutes(5), true],
    ['often', null, null, false],
    ['-1 soon', null, null, false],
    ['3 soon', 3, null, false],
    ['1000', null, null, false],
    ['101', 101, null, false],
    ['often 5m', null, minutes(5), false],
    ['0.5', null, null, false],
  ])('%j, which plain SQL may have put there', (text, retries, delay, isValid) => {
    expect(readRetry(text)).toEqual({ retries, delay, isValid });
  });
});

function minutes(count: number) {
  return { firstMs: count * MINUTE, factor: 1, longestMs: count * MINUTE };
}
