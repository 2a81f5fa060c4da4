import { expect, test } from 'vitest';
import { MINUTE_MS, openTestQueue, START } from '../../support/queue.ts';

test('a running job that is buried ends its run as failed, with the reason', async () => {
  const { queue, take, row, runs, clock } = await openTestQueue();
  const job = await take('mail/a');
  clock.at += MINUTE_MS;
  await queue.bury(job, { reason: 'the address does not exist', priority: 100 });
  expect(row(job.id)).toMatchObject({
    state: 'failed',
    reason: 'the address does not exist',
    priority: 100,
    attempts: 1,
    finished_at: START + MINUTE_MS,
    claim_token: null,
    lease_expires_at: null,
  });
  expect(runs(job.id)).toMatchObject([
    { outcome: 'failed', reason: 'the address does not exist', finished_at: START + MINUTE_MS },
  ]);
});

test('a job that waits is buried without ever having run, and is not taken until it is kicked', async () => {
  const { queue, row, runs } = await openTestQueue();
  const id = await queue.add('mail/a', {}, { priority: 900 });
  await queue.bury(id);
  expect(row(id)).toMatchObject({ state: 'failed', reason: 'it was buried', priority: 900 });
  expect(runs(id)).toEqual([]);
  expect(await queue.claim()).toBeNull();
  await queue.kick(id);
  expect(await queue.claim()).toMatchObject({ id, attempt: 1, counters: { buries: 1, kicks: 1 } });
});

test('a repeating job that is buried repeats no more, until it is kicked', async () => {
  const { queue, take, row } = await openTestQueue();
  const job = await take('mail/a', { repeat: 'FINISHED, +1 HOUR' });
  await queue.bury(job);
  expect(row(job.id)).toMatchObject({ state: 'failed', repeat: 'FINISHED, +1 HOUR' });
  await queue.kick(job.id);
  await queue.finish((await queue.claim()) ?? 0);
  expect(row(job.id)).toMatchObject({ state: 'queued' });
});

test.each([1.5, '500', Number.POSITIVE_INFINITY])('the priority %s is refused', async (priority) => {
  const { queue, take, dump } = await openTestQueue();
  const job = await take();
  const before = dump();
  const buried = queue.bury(job, { priority: priority as number });
  await expect(buried).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining('A priority must be a whole number'),
  });
  expect(dump()).toBe(before);
});

test('what is buried stays to be kicked, also where nothing that has ended is kept', async () => {
  const { queue, take, row } = await openTestQueue({ archive: { '*': 'remove' } });
  const buried = await take();
  await queue.bury(buried);
  expect(row(buried.id)).toMatchObject({ state: 'failed' });
  const failed = await take();
  await queue.fail(failed);
  const cancelled = await queue.add('a');
  await queue.cancel(cancelled);
  expect([failed.id, cancelled].map(row)).toEqual([undefined, undefined]);
});
