import { expect, test } from 'vitest';
import { MINUTE_MS, openTestQueue, START } from '../support/test-queue.ts';

test('a job that is failed is not tried again, whatever tries it has left', async () => {
  const { queue, take, row } = await openTestQueue();
  const job = await take('mail/a', { retries: 3 });
  await queue.fail(job, { reason: 'there is no such customer' });
  expect(row(job.id)).toMatchObject({ state: 'failed', reason: 'there is no such customer' });
});

test('a failed try that may be retried waits for its delay, until no tries are left', async () => {
  const { queue, take, row, runs, clock } = await openTestQueue();
  const job = await take('mail/a', { retries: 1, retryDelay: '5m' });
  await queue.fail(job, { reason: 'busy', mayRetry: true, data: { seen: 1 } });
  expect(row(job.id)).toMatchObject({
    state: 'retrying',
    reason: 'busy',
    data: '{"seen":1}',
    attempts: 1,
    releases: 0,
    run_at: START + 5 * MINUTE_MS,
  });
  expect(await queue.claim()).toBeNull();
  clock.at += 5 * MINUTE_MS;
  const again = await queue.claim();
  expect(again).toMatchObject({ id: job.id, attempt: 2 });
  await queue.fail({ id: job.id, token: again?.token ?? '' }, { reason: 'busy', mayRetry: true });
  expect(row(job.id)).toMatchObject({ state: 'failed', reason: 'busy', attempts: 2 });
  expect(runs(job.id)).toMatchObject([{ outcome: 'failed' }, { outcome: 'failed' }]);
});
