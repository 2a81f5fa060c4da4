import { expect, test } from 'vitest';
import { createWakeSignal } from '../../../src/worker/loop/executors.ts';

test('each ring is heard once, by who asked before it', () => {
  const noMore = new AbortController();
  const wake = createWakeSignal(noMore.signal);
  const [one, same] = [wake.next(), wake.next()];
  wake.ring();
  const later = wake.next();
  expect([one.aborted, same.aborted, later.aborted]).toEqual([true, true, false]);
  noMore.abort();
  expect(later.aborted).toBe(true);
});
