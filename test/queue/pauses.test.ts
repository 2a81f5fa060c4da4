import { describe, expect, test } from 'vitest';
import { findPause, type Pause, pause, selectPausedPatterns } from '../../src/queue/pauses.ts';
import { HOUR_MS, MINUTE_MS, openTestQueue, START } from '../support/test-queue.ts';

const named = (...names: string[]): Pause[] =>
  names.map((name) => ({ name, until: null, createdAt: START }));

test.each([
  ['hourly/a', ['hourly'], 'hourly'],
  ['hourly/a', ['hourly/a'], 'hourly/a'],
  ['hourly/a', ['hourly/*'], null],
  ['hourly/a', ['queue/*', 'daily'], null],
  ['queue/mail/a', ['queue/mail/*'], 'queue/mail/*'],
  ['queue/mail/a', ['queue/mail'], null],
  ['queue/mail/a', ['queue/*/a'], 'queue/*/a'],
  ['queue/mail/a', ['queue/mail/*', 'queue'], 'queue'],
  ['queue/mail/a', ['queue/MAIL/*'], null],
  ['queue/mail/a', ['*', 'queue'], '*'],
  ['queue', ['queue/*'], null],
])('%s is kept back of %j by %s', (name, pauses, by) => {
  expect(findPause(named(...pauses), name)?.name ?? null).toBe(by);
});

test('pauses and fuses in force are told apart as globs over names of jobs', async () => {
  const { db } = await openTestQueue();
  const add = (name: string, kind: 'pause' | 'fuse', until: number | null = null) =>
    pause(db, { name, kind, until, createdAt: START });
  await add('hourly', 'pause');
  await add('queue/mail/*', 'pause');
  await add('queue/export', 'fuse', START + 2);
  await add('queue/over', 'fuse', START + 1);
  expect(await selectPausedPatterns(db, START + 1)).toEqual({
    paused: ['mail/*'],
    fused: ['export'],
  });
  await add('*', 'pause');
  await add('queue', 'fuse');
  expect(await selectPausedPatterns(db, START)).toEqual({
    paused: ['*', 'mail/*'],
    fused: ['*', 'export', 'over'],
  });
});

describe('Queue.pause', () => {
  test('keeps jobs of a pattern from being taken until they are resumed', async () => {
    const { queue } = await openTestQueue();
    await queue.addMany([{ name: 'mail/a', priority: 900 }, { name: 'export' }]);
    await queue.pause('mail/*');
    expect(await queue.claim()).toMatchObject({ name: 'export' });
    expect(await queue.claim()).toBeNull();
    expect(await queue.resume('mail/*')).toBe(true);
    expect(await queue.claim()).toMatchObject({ name: 'mail/a' });
    expect(await queue.resume('mail/*')).toBe(false);
  });

  test('of * keeps back the whole queue; what runs comes to its end', async () => {
    const { queue, take, row, db } = await openTestQueue();
    const job = await take();
    await queue.add('a');
    await queue.pause('*');
    expect(await queue.claim()).toBeNull();
    await queue.finish(job);
    expect(row(job.id)).toMatchObject({ state: 'finished' });
    expect(await db.selectFrom('pauses').select('name').execute()).toEqual([{ name: 'queue' }]);
  });

  test('ends by itself; pausing again replaces it', async () => {
    const { queue, clock } = await openTestQueue();
    await queue.add('a');
    await queue.pause('a');
    await queue.pause('a', { for: '1h' });
    clock.at += HOUR_MS - 1;
    expect(await queue.claim()).toBeNull();
    clock.at += 1;
    expect(await queue.claim()).not.toBeNull();
    expect(await queue.resume('a')).toBe(false);
  });

  test('as a fuse fails what is due of it, and nothing else', async () => {
    const { queue, clock, row } = await openTestQueue();
    const ids = await queue.addMany([
      ...Array.from({ length: 15 }, () => ({ name: 'bad/x' })),
      { name: 'good' },
      { name: 'bad/later', runAt: '+1h' },
    ]);
    await queue.pause('bad/*', { fail: true });
    expect(await queue.claim()).toMatchObject({ name: 'good' });
    expect(await queue.claim()).toBeNull();
    const states = ids.map((id) => row(id).state);
    expect(states).toEqual([...Array(15).fill('failed'), 'running', 'queued']);
    clock.at += HOUR_MS + MINUTE_MS;
    await queue.resume('bad/*');
    expect(await queue.claim('bad/*')).toMatchObject({ name: 'bad/later' });
  });

  test.each([
    ['', {}],
    [7, {}],
    ['a', { for: 'long' }],
    ['a', { for: '' }],
  ])('%j, %j is refused', async (pattern, options) => {
    const { queue, dump } = await openTestQueue();
    const before = dump();
    const paused = queue.pause(pattern as string, options);
    await expect(paused).rejects.toMatchObject({ code: 'invalid' });
    expect(dump()).toBe(before);
  });
});
