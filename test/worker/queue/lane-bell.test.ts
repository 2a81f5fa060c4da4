import { expect, test } from 'vitest';
import { createLaneBell } from '../../../src/worker/loop/executors.ts';

test('each ring is heard once, by who asked before it', () => {
  const noMore = new AbortController();
  const bell = createLaneBell(noMore.signal);
  const [one, same] = [bell.next(), bell.next()];
  bell.ring();
  const later = bell.next();
  expect([one.aborted, same.aborted, later.aborted]).toEqual([true, true, false]);
  noMore.abort();
  expect(later.aborted).toBe(true);
});
