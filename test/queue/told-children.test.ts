import { expect, test } from 'vitest';
import { describeUntellable, tellEndedChildren } from '../../src/queue/settle/families.ts';
import { queryRaw } from '../../src/store/sqlite/queries.ts';

import { openTestQueue, type TestQueue } from '../support/test-queue.ts';

const MB = 1024 * 1024;

interface Ended {
  readonly state: string;
  readonly data?: string;
  readonly result?: string | null;
  readonly isTold?: 0 | 1;
}

/** As if these children of job 1 had ended. */
async function addEnded({ db }: TestQueue, ...children: readonly Ended[]): Promise<void> {
  for (const { state, data = '{}', result = null, isTold = 0 } of children) {
    await queryRaw(
      db,
      `insert into jobs (name, state, data, result, is_told, parent_id, finished_at)
       values ('c"hild', ?, ?, ?, ?, 1, 1)`,
      [state, data, result, isTold],
    );
  }
}

test("children are told of as JSON, in which theirs stays as it is written, but for what can't be read", async () => {
  const log = await openTestQueue();
  await log.take('parent');
  await addEnded(
    log,
    { state: 'finished', data: '{"id":9007199254740993}', result: ' 1.50 ' },
    { state: 'finished', result: 'no JSON' },
    { state: 'failed' },
    { state: 'cancelled', data: '[1]' },
    { state: 'queued' },
    { state: 'finished', isTold: 1 },
  );
  const text = await tellEndedChildren(log.db, 1);
  expect(text).toContain('{"id":9007199254740993}');
  expect(text).toContain(' 1.50 ');
  const told = { name: 'c"hild', data: {}, result: null };
  expect(JSON.parse(text)).toEqual({
    finished: [
      { ...told, id: 2, data: { id: Number('9007199254740993') }, result: 1.5 },
      { ...told, id: 3 },
    ],
    failed: [{ ...told, id: 4 }],
    cancelled: [{ ...told, id: 5, data: [1] }],
  });
  expect(await describeUntellable(log.db, 1)).toBeNull();
});

test('of none there is nothing to tell', async () => {
  const { db } = await openTestQueue();
  expect(JSON.parse(await tellEndedChildren(db, 1))).toEqual({
    finished: [],
    failed: [],
    cancelled: [],
  });
  expect(await describeUntellable(db, 1)).toBeNull();
});

test('of 64 MB in all a handler can be told, of more not', async () => {
  const log = await openTestQueue();
  await log.take('parent');
  const child = {
    state: 'finished',
    data: `"${'x'.repeat(MB - 2)}"`,
    result: `"${'é'.repeat(MB)}"`,
  };
  await addEnded(log, ...Array.from({ length: 21 }, () => child));
  expect(await describeUntellable(log.db, 1)).toBeNull();
  await addEnded(log, child);
  expect(await describeUntellable(log.db, 1)).toBe(
    'the data and results of its children are 66 MB in total, and its handler can get 64 MB; put large data into files and pass their names',
  );
});
