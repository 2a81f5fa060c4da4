import { describe, expect, test } from 'vitest';
import { withBackoff } from '../../../src/execution/start/process.ts';

const fail = (code: string) => Object.assign(new Error(`spawn ${code}`), { code });

/** Fails with these codes, one after the other, then succeeds. */
function startAfter(codes: readonly string[]) {
  const rest = [...codes];
  const counted = {
    calls: 0,
    start: async () => {
      counted.calls += 1;
      const code = rest.shift();
      if (code !== undefined) throw fail(code);
      return 'started';
    },
  };
  return counted;
}

const never = new AbortController().signal;

test('goes on trying while the host is full', async () => {
  const counted = startAfter(['EAGAIN', 'ENOMEM', 'ENFILE']);
  expect(await withBackoff(counted.start, never, [1, 1, 1])).toBe('started');
  expect(counted.calls).toBe(4);
});

test('gives up after the last delay, with the last error', async () => {
  const counted = startAfter(['EAGAIN', 'EAGAIN', 'ENOMEM']);
  await expect(withBackoff(counted.start, never, [1, 1])).rejects.toThrow('spawn ENOMEM');
  expect(counted.calls).toBe(3);
});

test('takes about five seconds in all', async () => {
  const started = performance.now();
  await expect(withBackoff(startAfter(Array(7).fill('EAGAIN')).start, never)).rejects.toThrow();
  expect(performance.now() - started).toBeGreaterThan(4_900);
});

describe('tries once only', () => {
  test.for(['ENOENT', 'EACCES', 'EMFILE'])('at %s, which does not pass', async (code) => {
    const counted = startAfter([code]);
    await expect(withBackoff(counted.start, never, [1])).rejects.toThrow(code);
    expect(counted.calls).toBe(1);
  });

  test('when it is stopped meanwhile, and does not wait', async () => {
    const stop = new AbortController();
    const counted = startAfter(['EAGAIN']);
    const result = withBackoff(counted.start, stop.signal, [60_000]);
    stop.abort();
    await expect(result).rejects.toThrow('EAGAIN');
    expect(counted.calls).toBe(1);
  });
});
