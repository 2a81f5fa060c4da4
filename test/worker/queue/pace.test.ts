import { expect, test } from 'vitest';
import { createStopRequest } from '../../../src/worker/invocation/stop.ts';
import { createPace } from '../../../src/worker/loop/queue-limits.ts';

/** Whether it is settled by now, without waiting for it. */
const isSettled = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([
    promise.then(() => true),
    new Promise<false>((resolve) => setImmediate(resolve, false)),
  ]);

test('without --adaptive every lane is admitted at once', async () => {
  const pace = createPace({ stop: createStopRequest() }, { isAdaptive: false, concurrency: 3 });
  for (const lane of [0, 1, 2]) expect(await pace.admit(lane)).toBe(true);
});

test('of an adaptive worker one lane begins, and the others wait', async () => {
  const stop = createStopRequest();
  const pace = createPace({ stop }, { isAdaptive: true, concurrency: 3 });
  expect(await pace.admit(0)).toBe(true);
  const second = pace.admit(1);
  expect(await isSettled(second)).toBe(false);
  stop.startNothing('SIGTERM');
  expect(await second).toBe(false);
});

test('who waits is not needed any more once the first lane has left', async () => {
  const pace = createPace({ stop: createStopRequest() }, { isAdaptive: true, concurrency: 3 });
  const [second, third] = [pace.admit(1), pace.admit(2)];
  pace.leave(1);
  expect(await isSettled(third)).toBe(false);
  pace.leave(0);
  expect(await Promise.all([second, third])).toEqual([false, false]);
});
