import { expect, test } from 'vitest';
import { openTestQueue, START } from '../../support/queue.ts';

test('a job that waits is cancelled, and frees its unique key', async () => {
  const { queue, row } = await openTestQueue();
  const id = await queue.add('mail/a', {}, { uniqueKey: 'k' });
  await queue.cancel(id);
  expect(row(id)).toMatchObject({ state: 'cancelled', finished_at: START, reason: 'it was cancelled' });
  expect(await queue.add('mail/a', {}, { uniqueKey: 'k' })).not.toBe(id);
});

test('a repeating job that is cancelled is over', async () => {
  const { queue, take, row } = await openTestQueue();
  const job = await take('mail/a', { repeat: 'FINISHED, +1 HOUR' });
  await queue.finish(job);
  await queue.cancel(job.id);
  expect(row(job.id)).toMatchObject({ state: 'cancelled' });
  expect(await queue.kickMany('*', 5)).toBe(0);
});

test('with a parent that waits, what waits of its children is cancelled; what runs goes on', async () => {
  const { queue, take, row } = await openTestQueue();
  const parent = await take('parent');
  await queue.addMany([
    { name: 'child', parent: parent.id },
    { name: 'child', parent: parent.id },
  ]);
  await queue.finish(parent);
  const running = await queue.claim('child');
  await queue.cancel(parent.id);
  const states = [1, 2, 3].map((id) => row(id).state);
  expect(states).toEqual(['cancelled', 'running', 'cancelled']);
  await queue.finish(running ?? 0);
  expect(row(2)).toMatchObject({ state: 'finished' });
  expect(row(1)).toMatchObject({ state: 'cancelled' });
});

test('a child that is cancelled while its parent runs lets that end as if it had none', async () => {
  const { queue, take, row } = await openTestQueue();
  const parent = await take('parent');
  const child = await queue.add('child', {}, { parent: parent.id });
  await queue.cancel(child);
  expect(row(parent.id)).toMatchObject({ state: 'running' });
  await queue.finish(parent);
  expect(row(parent.id)).toMatchObject({ state: 'finished' });
});
