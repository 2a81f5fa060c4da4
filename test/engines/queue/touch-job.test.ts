import { expect, test } from 'vitest';
import type { ClaimedJob } from '../../../src/queue/api.ts';
import { LEASE_GRACE_MS } from '../../../src/queue/settle/retry-policy.ts';
import { MINUTE_MS, openTestQueue, SECOND_MS, START, type TestQueue } from '../../support/queue.ts';

test.each([
  ['by the word of who touches', { lease: '10m' }, { lease: '30s' }, 10 * MINUTE_MS],
  ['by its own', undefined, { lease: '30s' }, 30 * SECOND_MS],
  ['by the settings', undefined, {}, 2 * MINUTE_MS],
] as const)('a lease begins anew %s', async (_, options, job, leaseMs) => {
  const { queue, take, clock, row, events } = await openTestQueue({ lease: '2m' });
  const claimed = await take('mail/a', job);
  clock.at += 10 * SECOND_MS;
  const until = START + 10 * SECOND_MS + leaseMs;
  expect(await queue.touch(claimed, options)).toEqual(new Date(until));
  expect(row(claimed.id)).toMatchObject({ lease_expires_at: until, attempts: 1 });
  expect(events(claimed.id)).toEqual(['job-queued', 'run-started']);
});

test('what `claim` was given counts, from each touch on: whoever touches, however often', async () => {
  const { queue, clock } = await openTestQueue();
  const id = await queue.add('mail/a', {}, { lease: '30s' });
  const claimed = await queue.claim('*', { lease: '2m' });
  for (const job of [claimed ?? 0, claimed ?? 0, id]) {
    clock.at += MINUTE_MS;
    expect(await queue.touch(job)).toEqual(new Date(clock.at + 2 * MINUTE_MS));
  }
  await queue.retry(id);
  await queue.claim();
  expect(await queue.touch(id)).toEqual(new Date(clock.at + 30 * SECOND_MS));
});

test('only a lease that is said ends a claim sooner', async () => {
  const { queue, take, clock } = await openTestQueue();
  const claimed = await take();
  const until = await queue.touch(claimed, { lease: '10m' });
  clock.at += SECOND_MS;
  expect(await queue.touch(claimed)).toEqual(until);
  expect(await queue.touch(claimed, { lease: '5s' })).toEqual(new Date(clock.at + 5 * SECOND_MS));
});

test.each([
  ['touch', ({ queue }: TestQueue, job: ClaimedJob) => queue.touch(job)],
  ['finish', ({ queue }: TestQueue, job: ClaimedJob) => queue.finish(job)],
  ['retry', ({ queue }: TestQueue, job: ClaimedJob) => queue.retry(job)],
  ['update', ({ queue }: TestQueue, job: ClaimedJob) => queue.update(job, { priority: 1 })],
  ['delete', ({ queue }: TestQueue, job: ClaimedJob) => queue.delete(job)],
])('%s by its holder: a claim is over a little after its lease, whether anybody has looked or not', async (_, verb) => {
  const log = await openTestQueue();
  const overAt = START + MINUTE_MS + LEASE_GRACE_MS;
  for (const looks of [false, true]) {
    log.clock.at = START;
    const job = await log.take('mail/a');
    log.clock.at = overAt + 1;
    if (looks) expect(await log.queue.claim('mail/*')).toMatchObject({ id: job.id, attempt: 2 });
    const before = log.dump();
    await expect(verb(log, job)).rejects.toMatchObject({
      code: 'stale-claim',
      message: expect.stringMatching(/^The claim of job \d+ \(mail\/a\) has expired: .*; nothing was changed\.$/),
    });
    expect(log.dump()).toBe(before);
    await log.queue.finish(job.id);
  }
  log.clock.at = START;
  const job = await log.take('mail/a');
  log.clock.at = overAt;
  await verb(log, job);
});

test.each(['soon', '', 7, null, '100001d'])('a lease of %j is refused', async (lease) => {
  const { queue, take } = await openTestQueue();
  const touched = queue.touch(await take(), { lease: lease as string });
  await expect(touched).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining('A lease must be a duration'),
  });
});
