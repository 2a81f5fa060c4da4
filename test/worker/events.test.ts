import { expect, test, vi } from 'vitest';
import { createWorkerEvents } from '../../src/worker/invocation/events.ts';

test('a display that fails ends no pass, is told once, and keeps nobody else from hearing', () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const events = createWorkerEvents();
  const heard: string[] = [];
  events.on('warning', () => {
    throw new RangeError('Invalid count value: -2');
  });
  events.on('warning', (text) => void heard.push(text));
  for (const text of ['one', 'two']) events.emit('warning', text);
  expect(heard).toEqual(['one', 'two']);
  expect(written.mock.calls).toEqual([
    [
      'runner: This display has a defect (RangeError: Invalid count value: -2); the pass goes on. ' +
        '`runner report` shows its runs.\n',
    ],
  ]);
});
