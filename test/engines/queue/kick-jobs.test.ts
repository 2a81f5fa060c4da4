import { describe, expect, test } from 'vitest';
import { kickJobs } from '../../../src/queue/settle/verbs.ts';
import { changeLog, readActivity } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START, type TestQueue } from '../../support/queue.ts';
import { explainQueries } from '../../support/store.ts';

async function bury({ queue, clock }: TestQueue, name: string, options = {}): Promise<number> {
  clock.at += 1;
  const id = await queue.add(name, {}, options);
  await queue.bury(id);
  return id;
}

describe('kick', () => {
  test('gives a failed job all its tries again, at once, with its past in its counters', async () => {
    const { queue, clock, row, runs, take } = await openTestQueue();
    const job = await take('mail/a', { retries: 2 });
    await queue.fail(job, { reason: 'no answer' });
    clock.at += HOUR_MS;
    await queue.kick(job.id);
    expect(row(job.id)).toMatchObject({
      state: 'queued',
      attempts: 0,
      retry: '2',
      run_at: START + HOUR_MS,
      finished_at: null,
      reason: null,
    });
    const again = await queue.claim();
    expect(again).toMatchObject({ id: job.id, attempt: 1, counters: { kicks: 1, reserves: 2 } });
    expect(again?.token).not.toBe(job.token);
    expect(runs(job.id).map(({ outcome }) => outcome)).toEqual(['failed', 'running']);
  });

  test('of a repeating job keeps the phase of its rule', async () => {
    const { queue, row } = await openTestQueue();
    const runAt = START + HOUR_MS;
    const id = await queue.add('mail/a', {}, { runAt, repeat: 'SCHEDULED, +1 HOUR' });
    await queue.kick(id);
    await queue.finish((await queue.claim()) ?? 0);
    expect(row(id)).toMatchObject({ run_at: START + 2 * HOUR_MS });
  });

  test('refuses a job whose unique key another one has by now, and names that', async () => {
    const log = await openTestQueue();
    const failed = await bury(log, 'mail/a', { uniqueKey: 'k' });
    const other = await log.queue.add('mail/a', {}, { uniqueKey: 'k' });
    const before = log.dump();
    await expect(log.queue.kick(failed)).rejects.toMatchObject({
      code: 'wrong-state',
      message:
        `Job ${failed} (mail/a) cannot be queued again: job ${other} has its unique key "k"; ` +
        "wait for that one's end, or cancel it.",
    });
    expect(log.dump()).toBe(before);
    await log.queue.cancel(other);
    await log.queue.kick(failed);
    expect(log.row(failed)).toMatchObject({ state: 'queued' });
  });
});

describe('a failed child that is kicked', () => {
  async function family() {
    const log = await openTestQueue();
    const parent = await log.take('parent');
    const ids = await log.queue.addMany([
      { name: 'child', parent: parent.id },
      { name: 'child', parent: parent.id },
    ]);
    await log.queue.finish(parent);
    const [failed, other] = ids as [number, number];
    await log.queue.bury(failed);
    return { ...log, parent: parent.id, failed, other };
  }

  test('is queued while its parent waits', async () => {
    const { queue, row, failed, parent, other } = await family();
    await queue.kick(failed);
    expect(row(failed)).toMatchObject({ state: 'queued' });
    await queue.cancel(other);
    expect(row(parent)).toMatchObject({ state: 'paused' });
    await queue.finish((await queue.claim()) ?? 0, { result: 7 });
    expect(await queue.claim()).toMatchObject({
      id: parent,
      children: { finished: [{ id: failed, result: 7 }], cancelled: [{ id: other }] },
    });
  });

  test('waits for its parent where that is at work again, and makes it wait once more', async () => {
    const { queue, row, failed, parent, other } = await family();
    await queue.cancel(other);
    await queue.kick(failed);
    expect(row(failed)).toMatchObject({ state: 'paused' });
    const resumed = await queue.claim();
    expect(resumed).toMatchObject({ id: parent, children: { failed: [], cancelled: [{}] } });
    await queue.finish(resumed ?? 0);
    expect(row(parent)).toMatchObject({ state: 'paused' });
    await queue.finish((await queue.claim()) ?? 0);
    expect(await queue.claim()).toMatchObject({ id: parent, children: { finished: [{ id: failed }], cancelled: [] } });
  });

  test('is refused once its parent has ended', async () => {
    const { queue, failed, parent, other } = await family();
    await queue.cancel(other);
    await queue.finish((await queue.claim()) ?? 0);
    await expect(queue.kick(failed)).rejects.toMatchObject({
      code: 'wrong-state',
      message:
        `Job ${failed} (child) belongs to job ${parent}, which is finished and no longer waits for ` +
        'children; add a new job instead.',
    });
    expect(await queue.kickMany('*', 10)).toBe(0);
  });
});

describe('kickMany', () => {
  test('kicks delayed jobs, the next ones first, only where none has failed', async () => {
    const log = await openTestQueue();
    const { queue, row } = log;
    const late = await queue.add('mail/a', {}, { runAt: '+2h', priority: 900 });
    const soon = await queue.add('mail/a', {}, { runAt: '+1h', priority: 100 });
    const ready = await queue.add('mail/a');
    await bury(log, 'other/a');
    expect(await queue.kickMany('mail/*', 1)).toBe(1);
    expect([late, soon, ready].map((id) => row(id).run_at === START)).toEqual([false, false, true]);
    expect(await queue.get(soon)).toMatchObject({ counters: { kicks: 1 } });
    expect(await queue.kickMany(['mail/*', 'x'], 5)).toBe(1);
    expect(await queue.kickMany('mail/*', 5)).toBe(0);
  });

  test('of failed jobs that share a unique key kicks one, and passes over what is queued again', async () => {
    const log = await openTestQueue();
    const { queue, row } = log;
    const ids: number[] = [];
    for (const uniqueKey of ['k', 'k', 'taken']) ids.push(await bury(log, 'mail/a', { uniqueKey }));
    await queue.add('mail/b', {}, { uniqueKey: 'taken' });
    ids.push(await bury(log, 'mail/a'));
    expect(await queue.kickMany('mail/*', 2)).toBe(2);
    expect(ids.map((id) => row(id).state)).toEqual(['queued', 'failed', 'failed', 'queued']);
    expect(await queue.kickMany('mail/*', 2)).toBe(0);
  });

  test('kicks delayed jobs where what has failed cannot be queued again', async () => {
    const log = await openTestQueue();
    const { queue, row } = log;
    const failed = await bury(log, 'mail/a', { uniqueKey: 'taken' });
    await queue.add('other', {}, { uniqueKey: 'taken' });
    const delayed = await queue.add('mail/b', {}, { runAt: '+1h' });
    expect(await queue.kickMany('mail/*', 5)).toBe(1);
    expect(row(failed).state).toBe('failed');
    expect(await queue.get(delayed)).toMatchObject({ counters: { kicks: 1 } });
  });

  test('kicks thousands, each told once, and no script', async () => {
    const { queue, root, row } = await openTestQueue();
    changeLog(root, `insert into jobs (name, tier, ready) values ('a', 'hourly', null)`);
    const ids = await queue.addMany(Array.from({ length: 1_234 }, () => ({ name: 'a' })));
    changeLog(root, `update jobs set state = 'failed', finished_at = ?, ready = null`, START);
    expect(await queue.kickMany('*', 5_000)).toBe(1_234);
    const told = readActivity(root).filter(({ event }) => event === 'job-kicked');
    expect(told.map(({ job_id }) => job_id).toSorted(byNumber)).toEqual(ids);
    expect(row(1)).toMatchObject({ tier: 'hourly', state: 'failed' });
  });

  test.each([
    ['*', 0],
    ['*', -1],
    ['*', 1.5],
    ['*', '3'],
    ['', 1],
    [[], 1],
    [[''], 1],
    [7, 1],
  ])('%j, %j is refused', async (patterns, count) => {
    const { queue } = await openTestQueue();
    const kicked = queue.kickMany(patterns as string, count as number);
    await expect(kicked).rejects.toMatchObject({ code: 'invalid' });
  });

  test('finds both by their indexes', async () => {
    const { root } = await openTestQueue();
    const plans = await explainQueries(root, (store) =>
      store.transaction((session) => kickJobs(session, 'mail/*', 5, { at: START, missedCap: 0, leaseMs: 0 })),
    );
    expect(plans.join('\n')).toMatch(/SEARCH jobs USING INDEX jobs_ended \(state=\? AND finished_at>/);
    expect(plans.join('\n')).toMatch(/USING INDEX jobs_delayed/);
    expect(plans.join('\n')).not.toMatch(/SCAN jobs(?! USING INDEX)/);
  });
});

const byNumber = (one: number | null, other: number | null): number => Number(one) - Number(other);
