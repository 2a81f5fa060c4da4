import { expect, test } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { HOUR_MS, MINUTE_MS, openTestQueue, SECOND_MS, START } from '../../support/queue.ts';
import { expectRefused, takeNext } from './cases.ts';

// Each is a defect that was seen in another queue; the reference, section 5, names which.

test('a job that has waited for long is not handed out twice as soon as it starts', async () => {
  const { queue, clock } = await openTestQueue();
  await queue.add('a', {}, { runAt: START - 100 * HOUR_MS });
  expect(await queue.claim()).not.toBeNull();
  clock.at += 30 * SECOND_MS;
  expect(await queue.claim()).toBeNull();
});

test('the end of a run and the next time of its job are one change: both or none', async () => {
  const { queue, take, root, row, runs, events } = await openTestQueue();
  const job = await take('a', { repeat: 'FINISHED, +1 HOUR' }, { kept: true });
  const before = [row(job.id), runs(job.id)];
  const makeRoom = engine.refuse(root, 'update on runs');
  await expect(queue.finish(job)).rejects.toThrow('no room');
  makeRoom();
  expect([row(job.id), runs(job.id)]).toEqual(before);
  await queue.finish(job);
  expect(row(job.id)).toMatchObject({ state: 'queued', run_at: START + HOUR_MS, data: '{"kept":true}' });
  expect(events(job.id).at(-1)).toBe('job-finished');
});

test('priority counts before age', async () => {
  const { queue, clock } = await openTestQueue();
  await queue.add('old');
  clock.at += HOUR_MS;
  await queue.add('new', {}, { priority: 501 });
  expect(await queue.claim()).toMatchObject({ name: 'new' });
});

test('a worker that is lost at its last try leaves no job running', async () => {
  const log = await openTestQueue();
  const id = await log.queue.add('a', {}, { retries: 0 });
  for (let n = 0; n < 10; n += 1) {
    await takeNext(log, 'a');
    log.clock.at += HOUR_MS;
  }
  expect(await log.queue.claim()).toBeNull();
  expect(log.row(id)).toMatchObject({ state: 'failed', claim_token: null, lease_expires_at: null });
});

test('a late beat alone loses no claim, and one without its token renews nothing', async () => {
  const log = await openTestQueue({ lease: '10s' });
  const { queue, take, clock, row } = log;
  const job = await take('a');
  clock.at += 11_450;
  await queue.touch(job);
  expect(row(job.id).lease_expires_at).toBe(clock.at + 10 * SECOND_MS);
  const other = { id: job.id, token: 'of another' };
  await expectRefused(log, 'stale-claim', () => queue.touch(other));
  expect(await queue.claim()).toBeNull();
  await queue.finish(job);
});

test("one worker's beat renews no other's claim", async () => {
  const { take, store, clock, row } = await openTestQueue();
  const job = await take('a');
  clock.at += SECOND_MS;
  await store.transaction(({ claims }) => claims.renew(1, clock.at, HOUR_MS));
  expect(row(job.id).lease_expires_at).toBe(START + MINUTE_MS);
});

test('a job whose end could not be written is taken again, though its worker lives on', async () => {
  const { queue, take, root, clock } = await openTestQueue({ lease: '10s' });
  const job = await take('a');
  const makeRoom = engine.refuse(root, 'update on runs');
  await expect(queue.finish(job)).rejects.toThrow('no room');
  makeRoom();
  expect((await queue.get(job.id))?.state).toBe('running');
  clock.at += MINUTE_MS;
  const again = await queue.claim();
  expect(again).toMatchObject({ id: job.id });
  await queue.finish(again ?? 0);
});

test('missed times are made up for, but not without end', async () => {
  const { queue, take, clock, row } = await openTestQueue({ missedCap: 10 });
  const job = await take('a', { repeat: 'SCHEDULED, +1 MINUTE', lease: '101h' });
  clock.at += 100 * HOUR_MS;
  await queue.finish(job);
  expect(row(job.id).run_at).toBeGreaterThanOrEqual(clock.at - 10 * MINUTE_MS);
});
