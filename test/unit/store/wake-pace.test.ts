import { expect, test } from 'vitest';
import { createWakePace } from '../../../src/store/sqlite/store.ts';

interface Wake {
  readonly laterMs: number;
  readonly hasFound?: true;
}

/** What is to be rested after each of these wake-ups. */
function restsOf(wakes: readonly Wake[]): number[] {
  let nowMs = 0;
  const pace = createWakePace(() => nowMs);
  return wakes.map(({ laterMs, hasFound }) => {
    nowMs += laterMs;
    pace.noteWake();
    if (hasFound) pace.noteFound();
    return pace.restMs();
  });
}

const repeat = (count: number, wake: Wake) => Array.from({ length: count }, () => wake);

test('who is woken for nothing again and again rests longer and longer, to a limit', () => {
  const rests = restsOf(repeat(40, { laterMs: 1 }));
  expect(rests.slice(0, 8)).toEqual(Array(8).fill(0));
  expect(rests.slice(8, 11)).toEqual([1, 2, 3]);
  expect(rests.at(-1)).toBe(20);
});

test.each([
  ['who finds something never rests', repeat(40, { laterMs: 1, hasFound: true })],
  ['wake-ups with quiet between them are no burden', repeat(40, { laterMs: 100 })],
])('%s', (_, wakes) => {
  expect(new Set(restsOf(wakes))).toEqual(new Set([0]));
});

test('who finds something after a long time of nothing is fresh again', () => {
  const rests = restsOf([...repeat(20, { laterMs: 1 }), { laterMs: 1, hasFound: true }, { laterMs: 1 }]);
  expect(rests.slice(-3)).toEqual([12, 0, 0]);
});
