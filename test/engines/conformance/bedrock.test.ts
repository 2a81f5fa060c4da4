import { expect, test } from 'vitest';
import { openTestQueue } from '../../support/queue.ts';
import { changeCases } from './change-cases.ts';
import { claimCases } from './claim-cases.ts';
import { createCases } from './create-cases.ts';
import { departures } from './departures.ts';
import { finishCases } from './finish-cases.ts';
import { invariantCases } from './invariant-cases.ts';
import { retryCases } from './retry-cases.ts';

/** By their numbers in the reference. */
const cases = { ...createCases, ...claimCases, ...finishCases, ...retryCases, ...changeCases, ...invariantCases };

const byNumber = Object.entries(cases).map(([number, one]) => ({ number: Number(number), ...one }));

test.each(byNumber)('Bedrock $number: $title', async ({ check, settings }) => {
  await check(await openTestQueue(settings));
});

test('every case of the reference is tested, or left out for a reason', () => {
  const known = new Set([...Object.keys(cases), ...Object.keys(departures)].map(Number));
  expect([...known].toSorted((one, other) => one - other)).toEqual(Array.from({ length: 98 }, (_, index) => index + 1));
});

test('no two tables have a case in common', () => {
  const tables = [createCases, claimCases, finishCases, retryCases, changeCases, invariantCases];
  const numbers = tables.flatMap((table) => Object.keys(table));
  expect(numbers).toHaveLength(byNumber.length);
});
