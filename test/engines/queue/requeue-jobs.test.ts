import { expect, test } from 'vitest';
import { changeLog } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START } from '../../support/queue.ts';

test('a running job is first of its priority again; its run is released, its worker is refused', async () => {
  const { queue, take, clock, row, runs } = await openTestQueue();
  const job = await take('mail/a');
  clock.at += 1;
  await queue.add('mail/a');
  clock.at += 1;
  expect(await queue.requeue([job.id])).toBe(1);
  expect(row(job.id)).toMatchObject({
    state: 'queued',
    run_at: START,
    attempts: 1,
    claimed_by: null,
    claim_token: null,
    lease_expires_at: null,
  });
  expect(runs(job.id)).toMatchObject([
    { outcome: 'released', reason: 'its job was requeued while it ran', finished_at: START + 2 },
  ]);
  expect(await queue.get(job.id)).toMatchObject({ counters: { crashes: 0, releases: 1 } });
  await expect(queue.finish(job)).rejects.toMatchObject({ code: 'stale-claim' });
  expect(await queue.claim('mail/*')).toMatchObject({ id: job.id, attempt: 2 });
});

test('a claim that never reached its worker is no try', async () => {
  const { queue, take, runs } = await openTestQueue();
  const { id } = await take('mail/a', { retries: 0 });
  await queue.requeue([id], { forgetTry: true });
  expect(await queue.get(id)).toMatchObject({ attempts: 0, counters: { reserves: 1 } });
  expect(runs(id)).toMatchObject([{ outcome: 'released', reason: 'its job was requeued: it never reached a worker' }]);
  const again = await queue.claim();
  expect(again).toMatchObject({ id, attempt: 1 });
  await queue.requeue([id, id], { forgetTry: true });
  await queue.requeue([id], { forgetTry: true });
  expect(await queue.get(id)).toMatchObject({ attempts: 0, counters: { reserves: 2 } });
});

test('several jobs change their name, and numbers that no job has are passed over', async () => {
  const { queue, row, root } = await openTestQueue();
  changeLog(root, `insert into jobs (name, tier, ready) values ('hourly/a', 'hourly', null)`);
  const ids = await queue.addMany([{ name: 'a' }, { name: 'b', runAt: '+1h' }]);
  expect(await queue.requeue([1, ...ids, 99], { name: 'mail/c' })).toBe(2);
  expect(ids.map((id) => row(id))).toMatchObject([
    { name: 'mail/c', run_at: START },
    { name: 'mail/c', run_at: START },
  ]);
  expect(row(1)).toMatchObject({ name: 'hourly/a' });
  expect(await queue.requeue([])).toBe(0);
});

test('what has ended begins anew, without its result', async () => {
  const { queue, take, clock, row } = await openTestQueue();
  const job = await take();
  await queue.finish(job, { result: { sent: true } });
  clock.at += HOUR_MS;
  await queue.requeue([job.id]);
  expect(row(job.id)).toMatchObject({ state: 'queued', finished_at: null, result: null });
});

test('all or none: one that cannot be queued keeps the others from it', async () => {
  const { queue, take, dump } = await openTestQueue();
  const plain = await queue.add('a', {}, { runAt: '+1h' });
  const parent = await take('parent');
  const child = await queue.add('child', {}, { parent: parent.id });
  await queue.finish(parent);
  const before = dump();
  await expect(queue.requeue([plain, parent.id])).rejects.toMatchObject({
    code: 'wrong-state',
    message:
      `Job ${parent.id} (parent) is paused, and only a job that waits for no children can be requeued; ` +
      'end or delete the jobs it waits for.',
  });
  expect(dump()).toBe(before);
  expect(await queue.requeue([plain, child])).toBe(2);
});

test('a child comes back only as long as its parent has not ended', async () => {
  const { queue, take, row } = await openTestQueue();
  const parent = await take('parent');
  const child = await queue.add('child', {}, { parent: parent.id });
  await queue.finish(parent);
  await queue.finish((await queue.claim('child')) ?? 0);
  await queue.requeue([child]);
  expect(row(child)).toMatchObject({ state: 'paused' });
  await queue.finish((await queue.claim('parent')) ?? 0);
  expect(row(child)).toMatchObject({ state: 'queued' });
  await queue.finish((await queue.claim('child')) ?? 0);
  await queue.finish((await queue.claim('parent')) ?? 0);
  await expect(queue.requeue([child])).rejects.toMatchObject({ code: 'wrong-state' });
});

test.each([
  [[0], {}],
  [['1'], {}],
  [1, {}],
  [null, {}],
  [[1], { name: '../x' }],
  [[1], { name: '' }],
])('%j, %j is refused', async (ids, options) => {
  const { queue } = await openTestQueue();
  await queue.add('a');
  const requeued = queue.requeue(ids as number[], options);
  await expect(requeued).rejects.toMatchObject({ code: 'invalid' });
});
