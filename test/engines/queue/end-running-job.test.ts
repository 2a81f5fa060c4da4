import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import type { JobOptions } from '../../../src/queue/api.ts';
import { MINUTE_MS, openTestQueue, START } from '../../support/queue.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

test('a failed try that may be retried waits for its delay, until no tries are left', async () => {
  const { queue, take, row, runs, clock } = await openTestQueue();
  const job = await take('mail/a', { retries: 1, retryDelay: '5m' });
  await queue.fail(job, { reason: 'busy', mayRetry: true, data: { seen: 1 } });
  expect(row(job.id)).toMatchObject({
    state: 'retrying',
    reason: 'busy',
    data: '{"seen":1}',
    attempts: 1,
    run_at: START + 5 * MINUTE_MS,
  });
  expect(await queue.get(job.id)).toMatchObject({ counters: { releases: 0 } });
  expect(await queue.claim()).toBeNull();
  clock.at += 5 * MINUTE_MS;
  const again = await queue.claim();
  expect(again).toMatchObject({ id: job.id, attempt: 2 });
  await queue.fail({ id: job.id, token: again?.token ?? '' }, { reason: 'busy', mayRetry: true });
  expect(row(job.id)).toMatchObject({ state: 'failed', reason: 'busy', attempts: 2 });
  expect(runs(job.id)).toMatchObject([{ outcome: 'failed' }, { outcome: 'failed' }]);
});

test('how often it is tried is said by its handler, else by the settings for its name, where the job is silent', async () => {
  const settings = {
    tiers: { queue: { retries: 2, retryDelay: '2m' } },
    scripts: { 'queue/mail/*': { retryDelay: '3m' } },
  };
  const root = makeTemporaryRoot({
    'runner.config.json': JSON.stringify(settings),
    'jobs/queue/mail/b.sh': executable('#!/bin/sh\n# @retries 1\n# @retry-delay 4m\n'),
  });
  const clock = { at: START };
  const queue = await openQueue({ root, now: () => clock.at });
  onTestFinished(() => queue.close());
  const lives = async (name: string, options: JobOptions = {}) => {
    const id = await queue.add(name, {}, options);
    const delays: (number | string | undefined)[] = [];
    for (;;) {
      await queue.fail((await queue.claim(name)) ?? 0, { mayRetry: true });
      const job = await queue.get(id);
      if (job?.state !== 'retrying') return [...delays, job?.state];
      delays.push((job.runAt.getTime() - clock.at) / MINUTE_MS);
      clock.at = job.runAt.getTime();
    }
  };
  expect(await lives('a')).toEqual([2, 2, 'failed']);
  expect(await lives('mail/a')).toEqual([3, 3, 'failed']);
  expect(await lives('mail/b')).toEqual([4, 'failed']);
  expect(await lives('mail/b?user=7')).toEqual([4, 'failed']);
  expect(await lives('mail/b', { retries: 2 })).toEqual([4, 4, 'failed']);
  expect(await lives('mail/b', { retryDelay: '5m' })).toEqual([5, 'failed']);
  expect(await lives('mail/b', { retries: 0 })).toEqual(['failed']);
});

test('of a long reason the beginning is kept: it stands in more than one row', async () => {
  const { queue, take, row, runs } = await openTestQueue();
  const job = await take();
  await queue.fail(job, { reason: 'z'.repeat(100_000) });
  expect(row(job.id).reason).toBe('z'.repeat(8 * 1024));
  expect(runs(job.id)[0]?.reason).toBe('z'.repeat(8 * 1024));
});

test.each([
  ['fail', 'it was failed by its claimant'],
  ['bury', 'it was buried'],
  ['retry', null],
] as const)('a blank reason to %s is none', async (verb, reason) => {
  const { queue, take, row } = await openTestQueue();
  for (const blank of ['', ' \n']) {
    const job = await take();
    await queue[verb](job, { reason: blank });
    expect(row(job.id).reason).toBe(reason);
    await queue.cancel(job.id);
  }
});

test.each(['fail', 'bury', 'retry'] as const)('a reason to %s that is no text is refused', async (verb) => {
  const { queue, take, dump } = await openTestQueue();
  const job = await take();
  const before = dump();
  for (const reason of [{}, 7, null, 5n] as unknown as string[]) {
    await expect(queue[verb](job, { reason })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(/^The reason must be text, found /),
    });
  }
  expect(dump()).toBe(before);
});

test.each(['kick', 'finish', 'bury', 'touch'] as const)(
  '%s tells a child that waits for its parent what it waits for',
  async (verb) => {
    const { queue, take } = await openTestQueue();
    const parent = await take('parent');
    const child = await queue.add('child', {}, { parent: parent.id });
    await expect(queue[verb](child)).rejects.toThrow(
      `can be ${{ kick: 'kicked', finish: 'finished', bury: 'buried', touch: 'touched' }[verb]}; ` +
        `it waits for the end of its parent, job ${parent.id}.`,
    );
  },
);
