import { expect, onTestFinished, test } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { changeLog, readJobs } from '../../support/log.ts';
import { openTestQueue } from '../../support/queue.ts';

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

test('jobs that are added at once are all there, in the order of the calls', async () => {
  const { queue, root } = await openTestQueue();
  const calls = numbers(250).map((index) => queue.add('a', { index }));
  const list = queue.addMany(numbers(3).map((index) => ({ name: 'b', data: { index } })));
  const last = queue.add('c');
  const ids = [...(await Promise.all(calls)), ...(await list), await last];
  expect(ids).toEqual(ids.toSorted((one, other) => one - other));
  expect(new Set(ids).size).toBe(254);
  const rows = new Map(readJobs(root).map((row) => [row.id, row]));
  expect(ids.map((id) => rows.get(id)?.data)).toEqual([
    ...numbers(250).map((index) => JSON.stringify({ index })),
    ...numbers(3).map((index) => JSON.stringify({ index })),
    '{}',
  ]);
});

test('a job that is refused among others that are added at once is refused alone', async () => {
  const { queue, root } = await openTestQueue();
  const wrong = queue.add('a', {}, { priority: 0.5 });
  const right = [queue.add('a'), queue.add('b', {}, { uniqueKey: 'k' }), queue.add('c')];
  await expect(wrong).rejects.toThrow('priority');
  expect(new Set(await Promise.all(right)).size).toBe(3);
  expect(readJobs(root).length).toBe(3);
});

test('a job that the log itself refuses takes no other with it', async () => {
  const { queue, root } = await openTestQueue();
  await queue.add('taken');
  const isMysql = engine.name === 'mysql';
  changeLog(root, `create unique index names on jobs (${isMysql ? 'name(20)' : 'name'})`);
  onTestFinished(() => void changeLog(root, `drop index names${isMysql ? ' on jobs' : ''}`));
  const ends = await Promise.allSettled([queue.add('a'), queue.add('taken'), queue.add('b')]);
  expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(readJobs(root).map(({ name }) => name)).toEqual(['taken', 'a', 'b']);
});

test('closing waits for jobs that are being added', async () => {
  const { queue, root } = await openTestQueue();
  const calls = numbers(250).map(() => queue.add('a'));
  await queue.close();
  expect((await Promise.all(calls)).length).toBe(250);
  expect(readJobs(root).length).toBe(250);
});
