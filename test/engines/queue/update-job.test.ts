import { describe, expect, test } from 'vitest';
import { readActivity } from '../../support/log.ts';
import { HOUR_MS, MINUTE_MS, openTestQueue, START } from '../../support/queue.ts';

describe('data', () => {
  test('replaces, is not merged, and stays what it is', async () => {
    const { queue } = await openTestQueue();
    const id = await queue.add('a', { one: 1, two: 2 });
    await queue.update(id, { data: { two: 3 } });
    expect((await queue.get(id))?.data).toEqual({ two: 3 });
    for (const data of ['1234', 1234, null, [1, '2'], true, '']) {
      await queue.update(id, { data });
      expect((await queue.get(id))?.data).toEqual(data);
    }
  });

  test('is seen by the next run of a job that runs, not by this one', async () => {
    const { queue, take } = await openTestQueue();
    const job = await take('a', {}, { n: 1 });
    await queue.update(job, { data: { n: 2 } });
    expect(job.data).toEqual({ n: 1 });
    await queue.retry(job);
    expect(await queue.claim()).toMatchObject({ data: { n: 2 } });
  });
});

describe('a new rule', () => {
  test.each([
    ['SCHEDULED, +1 HOUR', START + HOUR_MS + HOUR_MS],
    ['finished, +30 minutes', START + 30 * MINUTE_MS],
    ['HOURLY', START + HOUR_MS],
  ])('%s gives a job that waits its next time', async (repeat, at) => {
    const { queue, row } = await openTestQueue();
    const id = await queue.add('a', {}, { runAt: START + HOUR_MS });
    await queue.update(id, { repeat });
    expect(row(id)).toMatchObject({ repeat: repeat.toUpperCase(), run_at: at, scheduled_for: at });
    expect(row(id).state).toBe('queued');
  });

  test('gives a job that is due a later time, too', async () => {
    const { queue, row } = await openTestQueue();
    const id = await queue.add('a');
    await queue.update(id, { repeat: 'SCHEDULED, +1 HOUR' });
    expect(row(id)).toMatchObject({ state: 'queued', ready: 0, run_at: START + HOUR_MS });
  });

  test('counts from when the job was started last', async () => {
    const { queue, take, clock, row } = await openTestQueue();
    const job = await take('a');
    clock.at += MINUTE_MS;
    await queue.retry(job);
    clock.at += MINUTE_MS;
    await queue.update(job.id, { repeat: 'STARTED, +1 HOUR' });
    expect(row(job.id)).toMatchObject({ state: 'retrying', run_at: START + HOUR_MS });
  });

  test('of a job that runs counts once that has finished', async () => {
    const { queue, take, clock, row } = await openTestQueue();
    const job = await take('a', { lease: '1h' });
    clock.at += MINUTE_MS;
    await queue.update(job, { repeat: 'FINISHED, +1 HOUR' });
    expect(row(job.id)).toMatchObject({ state: 'running', run_at: START });
    clock.at += MINUTE_MS;
    await queue.finish(job);
    expect(row(job.id)).toMatchObject({ state: 'queued', run_at: START + HOUR_MS + 2 * MINUTE_MS });
  });

  test('by STARTED is refused for a job that has never started', async () => {
    const { queue, dump } = await openTestQueue();
    const id = await queue.add('a');
    const before = dump();
    await expect(queue.update(id, { repeat: 'STARTED, +1 HOUR' })).rejects.toMatchObject({
      code: 'invalid',
      message: `"STARTED, +1 HOUR" gives job ${id} no time: it has never started. Begin the rule with SCHEDULED or FINISHED, or give a time, too.`,
    });
    expect(dump()).toBe(before);
  });

  test('that leads out of the calendar is refused', async () => {
    const { queue, dump } = await openTestQueue();
    const id = await queue.add('a');
    const before = dump();
    const repeat = `FINISHED${', +999 YEARS'.repeat(9)}`;
    await expect(queue.update(id, { repeat })).rejects.toMatchObject({
      code: 'invalid',
      message: `"${repeat}" gives job ${id} no time: it goes beyond the year 9999.`,
    });
    expect(dump()).toBe(before);
  });

  test('is refused for a child: its parent would wait for ever', async () => {
    const { queue, take } = await openTestQueue();
    const parent = await take('parent');
    const child = await queue.add('child', {}, { parent: parent.id });
    await expect(queue.update(child, { repeat: 'DAILY' })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('Let the parent repeat.'),
    });
  });
});

test('a new time of a repeating job is what its rule counts from', async () => {
  const { queue, row } = await openTestQueue();
  const id = await queue.add('a', {}, { repeat: 'SCHEDULED, +1 HOUR' });
  await queue.update(id, { runAt: START - 10 * MINUTE_MS });
  await queue.finish((await queue.claim()) ?? 0);
  expect(row(id)).toMatchObject({ run_at: START + 50 * MINUTE_MS });
});

test('what was changed is told, in one row', async () => {
  const { queue, root } = await openTestQueue();
  const id = await queue.add('a');
  await queue.update(id, { data: 1, priority: 2, repeat: 'DAILY' });
  expect(readActivity(root).at(-1)).toMatchObject({ event: 'job-updated', job_id: id, detail: 'data, priority, rule' });
});

test.each([
  [{}, 'The options of `update` must be an object with data, priority, runAt, repeat.'],
  [{ priority: 1.5 }, 'A priority must be a whole number'],
  [{ runAt: 'someday' }, 'A time must be one such as +10 minutes'],
])('%j is refused', async (options, message) => {
  const { queue } = await openTestQueue();
  const id = await queue.add('a');
  await expect(queue.update(id, options)).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining(message),
  });
});
