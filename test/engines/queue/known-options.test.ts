import { expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { openTestQueue } from '../../support/queue.ts';

test('options that are none are told of, whatever the verb', async () => {
  const { queue, take, dump } = await openTestQueue();
  const job = await take();
  const before = dump();
  const none = null as never;
  const wrong: readonly [string, () => Promise<unknown>][] = [
    ['claim', () => queue.claim('*', none)],
    ['finish', () => queue.finish(job, none)],
    ['retry', () => queue.retry(job, none)],
    ['fail', () => queue.fail(job, none)],
    ['bury', () => queue.bury(job, none)],
    ['touch', () => queue.touch(job, none)],
    ['update', () => queue.update(job, none)],
    ['update', () => queue.update(job, undefined as never)],
    ['requeue', () => queue.requeue([job.id], none)],
    ['list', () => queue.list(none)],
    ['pause', () => queue.pause('a', none)],
  ];
  for (const [verb, call] of wrong) {
    await expect(call()).rejects.toMatchObject({
      name: 'QueueError',
      code: 'invalid',
      message: expect.stringContaining(`The options of \`${verb}\` must be an object with `),
    });
  }
  await expect(queue.touch(job, { laese: '1m' } as object)).rejects.toThrow('did you mean lease?');
  expect(dump()).toBe(before);
});

test('a slip in an option is told of, with the one that was meant, and nothing is changed', async () => {
  const { queue, dump } = await openTestQueue();
  const before = dump();
  const slips: readonly [() => Promise<unknown>, string][] = [
    [() => queue.add('a', {}, { prority: 1 } as object), '`add` has no option "prority"; did you mean priority?'],
    [
      () => queue.addMany([{ name: 'a' }, { name: 'b', delay: '10m' } as never]),
      'Job 2 of 2 ("b"): `add` has no option "delay"; it takes name, data, runAt',
    ],
    [() => queue.list({ stat: 'failed' } as object), '`list` has no option "stat"; did you mean state?'],
    [() => queue.claim('*', { wiat: '1s' } as object), '`claim` has no option "wiat"; did you mean wait?'],
    [() => queue.pause('a', { fial: true } as object), '`pause` has no option "fial"; did you mean fail?'],
  ];
  for (const [slip, message] of slips) {
    // One after the other: what nobody waits for yet would be an error of nobody's.
    await expect(slip()).rejects.toMatchObject({ code: 'invalid', message: expect.stringContaining(message) });
  }
  expect(dump()).toBe(before);
  await expect(openQueue({ rot: '/' } as object)).rejects.toThrow(
    '`openQueue` has no option "rot"; did you mean root?',
  );
});
