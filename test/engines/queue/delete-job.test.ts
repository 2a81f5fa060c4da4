import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { changeLog } from '../../support/log.ts';
import { openTestQueue, START } from '../../support/queue.ts';

test('a job goes with its runs and their output files; that it was deleted stays told', async () => {
  const { queue, take, root, row, runs, events } = await openTestQueue();
  const job = await take();
  await queue.finish(job);
  const file = join(stateFolderOf(root).output, '7.1.log.gz');
  writeFileSync(file, '');
  changeLog(root, `update runs set output_file = '7.1.log.gz', output_file_bytes = 0`);
  await queue.delete(job.id);
  expect(row(job.id)).toBeUndefined();
  expect(runs(job.id)).toEqual([]);
  expect(existsSync(file)).toBe(false);
  expect(events(job.id)).toEqual(['job-deleted']);
  expect(await queue.get(job.id)).toBeNull();
});

test('the number of a deleted job is never used again', async () => {
  const { queue, store } = await openTestQueue();
  const id = await queue.add('a');
  await queue.delete(id);
  expect(await queue.add('a')).toBe(id + 1);
  await queue.delete(id + 1);
  const many = await queue.addMany([{ name: 'a' }, { name: 'b' }]);
  expect(many).toEqual([id + 2, id + 3]);
  for (const each of many.toReversed()) await queue.delete(each);
  const [script] = await store.scriptJobs.enqueue([
    { name: 'hourly/a', tier: 'hourly', scheduledFor: null, at: START },
  ]);
  expect(script).toBe(id + 4);
  expect(await queue.add('a')).toBe(id + 5);
});

test('a parent is not deleted while a child has not ended, and then with all of them', async () => {
  const { queue, take, row, dump } = await openTestQueue();
  const parent = await take('parent');
  const [one = 0, two = 0] = await queue.addMany([
    { name: 'child', parent: parent.id },
    { name: 'child', parent: parent.id },
  ]);
  await queue.finish(parent);
  const before = dump();
  await expect(queue.delete(parent.id)).rejects.toMatchObject({
    code: 'wrong-state',
    message: `Job ${parent.id} (parent) has 2 children that have not ended (${one}, ${two}); cancel or delete them first.`,
  });
  expect(dump()).toBe(before);
  await queue.cancel(one);
  await queue.cancel(two);
  await queue.delete(parent.id);
  expect([parent.id, one, two].map(row)).toEqual([undefined, undefined, undefined]);
});

test('the last pending child that is deleted resumes its parent', async () => {
  const { queue, take } = await openTestQueue();
  const parent = await take('parent');
  const child = await queue.add('child', {}, { parent: parent.id });
  await queue.finish(parent);
  await queue.delete(child);
  expect(await queue.claim()).toMatchObject({ id: parent.id, children: { finished: [], failed: [], cancelled: [] } });
});
