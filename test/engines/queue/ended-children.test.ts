import { expect, test } from 'vitest';
import { describeChildren, readEndedChildren } from '../../../src/queue/settle/families.ts';
import { changeLog } from '../../support/log.ts';
import { openTestQueue, type TestQueue } from '../../support/queue.ts';

const MB = 1024 * 1024;

interface Ended {
  readonly state: string;
  readonly data?: string;
  readonly result?: string | null;
  readonly isReported?: 0 | 1;
}

/** As if these children of job 1 had ended. */
function addEnded({ root }: TestQueue, ...children: readonly Ended[]): void {
  for (const { state, data = '{}', result = null, isReported = 0 } of children) {
    const end = state === 'queued' ? null : 1;
    const ready = state === 'queued' ? 0 : null;
    changeLog(
      root,
      `insert into jobs (name, state, ready, data, result, reported_to_parent, parent_id, finished_at)
       values ('c"hild', ?, ?, ?, ?, ?, 1, ?)`,
      ...[state, ready, data, result, isReported, end],
    );
  }
}

async function describe({ store }: TestQueue): Promise<string> {
  const described = await describeChildren(store, 1);
  return 'json' in described ? described.json : described.problem;
}

test("children are told of as JSON, in which theirs stays as it is written, but for what can't be read", async () => {
  const log = await openTestQueue();
  await log.take('parent');
  addEnded(
    log,
    { state: 'finished', data: '{"id":9007199254740993}', result: ' 1.50 ' },
    { state: 'finished', result: 'no JSON' },
    { state: 'failed' },
    { state: 'cancelled', data: '[1]' },
    { state: 'queued' },
    { state: 'finished', isReported: 1 },
  );
  const text = await describe(log);
  expect(text).toContain('{"id":9007199254740993}');
  expect(text).toContain(' 1.50 ');
  const told = { name: 'c"hild', data: {}, result: null };
  const expected = {
    finished: [
      { ...told, id: 2, data: { id: Number('9007199254740993') }, result: 1.5 },
      { ...told, id: 3 },
    ],
    failed: [{ ...told, id: 4 }],
    cancelled: [{ ...told, id: 5, data: [1] }],
  };
  expect(JSON.parse(text)).toEqual(expected);
  expect(await readEndedChildren(log.store, 1)).toEqual(expected);
});

test('of none there is nothing to tell', async () => {
  const log = await openTestQueue();
  expect(JSON.parse(await describe(log))).toEqual({ finished: [], failed: [], cancelled: [] });
});

test('of 64 MB in all a handler can be told, of more not', async () => {
  const log = await openTestQueue();
  await log.take('parent');
  const child = { state: 'finished', data: `"${'x'.repeat(MB - 2)}"`, result: `"${'é'.repeat(MB)}"` };
  addEnded(log, ...Array.from({ length: 21 }, () => child));
  expect(JSON.parse(await describe(log)).finished).toHaveLength(21);
  addEnded(log, child);
  expect(await describe(log)).toBe(
    'the data and results of its children are 66 MB in total, and its handler can get 64 MB; put large data into files and pass their names',
  );
});
