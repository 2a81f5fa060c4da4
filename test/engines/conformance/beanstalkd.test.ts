import { describe, expect, test } from 'vitest';
import { HOUR_MS, MINUTE_MS, openTestQueue, SECOND_MS, START } from '../../support/queue.ts';
import { countersOf, expectRefused, takeNext } from './cases.ts';

describe('beanstalkd put', () => {
  test('with a delay is not ready before', async () => {
    const { queue, clock } = await openTestQueue();
    await queue.add('tube', 'body', { runAt: '+10s', lease: '1s' });
    expect(await queue.count()).toMatchObject([{ name: 'tube', ready: 0, delayed: 1 }]);
    expect(await queue.get(1)).toMatchObject({ leaseMs: SECOND_MS, leasedUntil: null });
    clock.at += 10 * SECOND_MS;
    expect(await queue.count()).toMatchObject([{ name: 'tube', ready: 1, delayed: 0 }]);
    expect(await queue.claim('tube')).toMatchObject({ data: 'body' });
  });

  test('of too big a job is refused', async () => {
    const log = await openTestQueue();
    const tooBig = 'x'.repeat(2 ** 20);
    await expectRefused(log, 'invalid', () => log.queue.add('tube', tooBig));
  });

  test('to a tube that there was not makes it', async () => {
    const { queue } = await openTestQueue();
    await queue.add('new/tube');
    expect((await queue.count()).map(({ name }) => name)).toEqual(['new/tube']);
  });
});

describe('beanstalkd reserve', () => {
  test('takes the most urgent, then the first; the higher number is the more urgent one', async () => {
    const { queue } = await openTestQueue();
    const ids = await queue.addMany([1, 3, 2, 3].map((priority) => ({ name: 'tube', priority })));
    const taken = (await queue.claimMany('tube', 9)).map(({ id }) => id);
    expect(taken).toEqual([ids[1], ids[3], ids[2], ids[0]]);
  });

  test('of tubes that are not watched takes nothing', async () => {
    const { queue } = await openTestQueue();
    await queue.add('ignored');
    expect(await queue.claim(['watched', 'other'])).toBeNull();
  });

  test('whose time to run is over makes the job ready again, and counts', async () => {
    const { queue, take, clock } = await openTestQueue();
    const job = await take('tube', { lease: '1s' });
    clock.at += MINUTE_MS;
    expect(await queue.claim()).toMatchObject({ id: job.id, counters: { reserves: 2, timeouts: 1 } });
  });
});

describe('beanstalkd DEADLINE_SOON', () => {
  const soon = { code: 'deadline-soon', message: expect.stringMatching(/^The claim of job \d+ \(tube\) expires/) };

  test('is told in the last second of a claim, and no sooner, unless there is a job to have', async () => {
    const { queue, take, clock } = await openTestQueue();
    const held = await take('tube', { lease: '10s' });
    clock.at += 9 * SECOND_MS - 1;
    expect(await queue.claim('*', { holding: [held] })).toBeNull();
    clock.at += 1;
    await expect(queue.claim('*', { holding: [held] })).rejects.toMatchObject(soon);
    await expect(queue.claim('*', { holding: [held.id], wait: '1h' })).rejects.toMatchObject(soon);
    const id = await queue.add('tube');
    expect(await queue.claim('*', { holding: [held] })).toMatchObject({ id });
    await queue.touch(held);
    expect(await queue.claim('*', { holding: [held] })).toBeNull();
  });

  test('ends a wait when that second begins, of the claim that ends first', async () => {
    const { queue, take, clock } = await openTestQueue();
    const [late, first] = [await take('other'), await take('tube', { lease: '1200ms' })];
    const waiting = queue.claim('*', { wait: '1h', holding: [late, first] });
    clock.at += 300;
    await expect(waiting).rejects.toMatchObject({
      ...soon,
      message: expect.stringContaining(`job ${first.id} (tube)`),
    });
  });

  test('is not told of what is over, or was never held', async () => {
    const log = await openTestQueue();
    const { queue, take, clock } = log;
    const [lost, done] = [await take('tube', { lease: '1s' }), await take('tube', { lease: '1s' })];
    await queue.finish(done);
    await queue.requeue([lost.id]);
    const again = await queue.claim('*', { lease: '1h' });
    expect(again?.id).toBe(lost.id);
    clock.at += SECOND_MS;
    expect(await queue.claim('*', { holding: [lost, done, 99] })).toBeNull();
    await expectRefused(log, 'invalid', () => queue.claim('*', { holding: lost as never }));
    await expectRefused(log, 'invalid', () => queue.claim('*', { holding: ['7' as never] }));
  });
});

test('beanstalkd reserve-job takes a job that is ready, delayed or buried, and no other', async () => {
  const log = await openTestQueue();
  const { queue } = log;
  const ready = await queue.add('tube');
  const delayed = await queue.add('tube', {}, { runAt: '+1h' });
  const buried = await queue.add('tube');
  await queue.bury(buried);
  for (const id of [delayed, buried, ready]) {
    expect(await queue.claimJob(id)).toMatchObject({ id, counters: { reserves: 1 } });
    await expectRefused(log, 'wrong-state', () => queue.claimJob(id));
  }
  await expectRefused(log, 'no-such-job', () => queue.claimJob(99));
});

describe('beanstalkd release', () => {
  test('changes priority and delay, and counts', async () => {
    const { queue, take, row, runs, clock } = await openTestQueue();
    const job = await take('tube');
    await queue.retry(job, { priority: 7, delay: '1m' });
    expect(row(job.id)).toMatchObject({ priority: 7, run_at: START + MINUTE_MS });
    expect(runs(job.id)).toMatchObject([{ outcome: 'released', reason: 'it was given back' }]);
    expect(await queue.claim()).toBeNull();
    clock.at += MINUTE_MS;
    expect(await queue.claim()).toMatchObject({ id: job.id, counters: { reserves: 2, releases: 1 } });
  });

  test('is for own reservations only', async () => {
    const log = await openTestQueue();
    const { id } = await log.take('tube');
    const other = { id, token: 'of another' };
    await expectRefused(log, 'stale-claim', () => log.queue.retry(other));
  });
});

describe('beanstalkd bury and kick', () => {
  test('buried jobs are left alone until they are kicked, in the order of burial', async () => {
    const { queue, clock } = await openTestQueue();
    await queue.addMany([{ name: 'tube' }, { name: 'tube' }, { name: 'tube' }]);
    const jobs = await queue.claimMany('tube', 3);
    const [one, two, three] = jobs.map(({ id }) => id);
    for (const id of [three, one, two]) {
      clock.at += 1;
      await queue.bury(id as number, { priority: 500 });
    }
    expect(await queue.claim()).toBeNull();
    expect(await queue.kickMany('tube', 2)).toBe(2);
    const kicked = (await queue.claimMany('tube', 9)).map(({ id }) => id);
    expect(new Set(kicked)).toEqual(new Set([three, one]));
  });

  test('buried ones are kicked first, and delayed ones only if none is buried', async () => {
    const log = await openTestQueue();
    const { queue } = log;
    const delayed = await queue.add('tube', {}, { runAt: '+1h' });
    const buried = await queue.add('tube');
    await queue.bury(buried);
    expect(await queue.kickMany('tube', 10)).toBe(1);
    expect(await countersOf(log, delayed)).toMatchObject({ kicks: 0 });
    expect(await queue.kickMany('tube', 10)).toBe(1);
    for (const id of [buried, delayed]) expect(await countersOf(log, id)).toMatchObject({ kicks: 1 });
  });

  test('kick-job is for what is buried or delayed', async () => {
    const log = await openTestQueue();
    const { queue } = log;
    const delayed = await queue.add('tube', {}, { runAt: '+1h' });
    await queue.kick(delayed);
    await expectRefused(log, 'wrong-state', () => queue.kick(delayed));
    await expectRefused(log, 'no-such-job', () => queue.kick(99));
    const buried = await takeNext(log, 'tube');
    await expectRefused(log, 'wrong-state', () => queue.kick(buried.id));
    await queue.bury(buried);
    await queue.kick(buried.id);
  });
});

describe('beanstalkd touch', () => {
  test('begins the time to run anew', async () => {
    const { queue, take, clock } = await openTestQueue();
    const job = await take('tube', { lease: '10s' });
    for (let n = 0; n < 5; n += 1) {
      clock.at += 9 * SECOND_MS;
      expect(await queue.touch(job)).toEqual(new Date(clock.at + 10 * SECOND_MS));
    }
    expect(await queue.claim()).toBeNull();
  });
});

describe('beanstalkd delete', () => {
  test('is for ready, delayed, buried and own reserved jobs', async () => {
    const { queue, take, row } = await openTestQueue();
    const ready = await queue.add('tube');
    const delayed = await queue.add('tube', {}, { runAt: '+1h' });
    const buried = await queue.add('tube');
    await queue.bury(buried);
    const own = await take('other');
    for (const job of [ready, delayed, buried, own]) await queue.delete(job);
    expect([ready, delayed, buried, own.id].map(row)).toEqual(Array(4).fill(undefined));
  });

  test('of what another has reserved is refused (cttest_delete_reserved_by_other)', async () => {
    const log = await openTestQueue();
    const { id } = await log.take('tube');
    await expectRefused(log, 'wrong-state', () => log.queue.delete(id));
    await expectRefused(log, 'stale-claim', () => log.queue.delete({ id, token: 'of another' }));
  });
});

describe('beanstalkd peek', () => {
  test('shows what is next of each state without taking it', async () => {
    const { queue, dump } = await openTestQueue();
    await queue.add('tube', 'low', { priority: 1 });
    await queue.add('tube', 'ready');
    await queue.add('tube', 'later', { runAt: '+2h', priority: 9000 });
    await queue.add('tube', 'delayed', { runAt: '+1h' });
    const buried = await queue.add('tube', 'buried');
    await queue.bury(buried);
    await queue.bury(await queue.add('tube', 'buried later'));
    const before = dump();
    const peek = async (options: object) => (await queue.list({ pattern: 'tube', limit: 1, ...options }))[0]?.data;
    expect((await queue.get(buried))?.data).toBe('buried');
    expect(await peek({ due: 'ready', order: 'next' })).toBe('ready');
    expect(await peek({ due: 'delayed', order: 'soonest' })).toBe('delayed');
    expect(await peek({ order: 'kick' })).toBe('buried');
    expect(await peek({ state: 'running' })).toBeUndefined();
    expect(dump()).toBe(before);
  });
});

test('beanstalkd pause-tube only keeps back what is reserved, for a while', async () => {
  const { queue, take, clock } = await openTestQueue();
  const job = await take('tube');
  await queue.pause('tube', { for: '1m' });
  const added = await queue.add('tube');
  expect(await queue.claim('tube')).toBeNull();
  await queue.finish(job);
  clock.at += MINUTE_MS;
  expect(await queue.claim('tube')).toMatchObject({ id: added });
});

test('beanstalkd stats-job is what a job is told of', async () => {
  const { queue, take, clock, row } = await openTestQueue();
  const job = await take('tube', { lease: '1m', priority: 3 });
  await queue.retry(job, { delay: '1m' });
  await queue.bury(job.id);
  await queue.kick(job.id);
  clock.at += HOUR_MS;
  const held = await queue.claim();
  expect(await queue.get(job.id)).toMatchObject({
    id: job.id,
    name: 'tube',
    state: 'running',
    priority: 3,
    createdAt: new Date(START),
    leasedUntil: new Date(clock.at + MINUTE_MS),
    counters: { reserves: 2, timeouts: 0, releases: 1, buries: 1, kicks: 1 },
  });
  expect(held?.token).toBe(row(job.id).claim_token);
});

test('beanstalkd stats-tube is a count for each name', async () => {
  const { queue, take } = await openTestQueue();
  await take('tube');
  await queue.addMany([{ name: 'tube' }, { name: 'tube', runAt: '+1h' }, { name: 'other' }]);
  await queue.bury(await queue.add('tube'));
  expect(await queue.count('tube')).toEqual([
    { name: 'tube', ready: 1, delayed: 1, running: 1, retrying: 0, paused: 0, failed: 1, finished: 0, cancelled: 0 },
  ]);
});
