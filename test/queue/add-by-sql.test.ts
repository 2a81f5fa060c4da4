import { expect, test } from 'vitest';
import { changeLog } from '../support/open-log.ts';
import { openTestQueue, START } from '../support/test-queue.ts';

const add = (columns: string, values: string) =>
  `insert into jobs (name, ${columns}) values ('mail/welcome', ${values})`;

test('a name and data are enough: defaults do the rest', async () => {
  const { root, row, events, queue, clock } = await openTestQueue();
  const before = Date.now();
  changeLog(root, add('data', `'{"to":"a@example.org"}'`));
  const after = Date.now();
  const job = row(1);
  expect(job).toMatchObject({ state: 'queued', tier: null, priority: 500, missed_policy: 'all' });
  // The default is computed by SQLite, in days since the year -4713.
  expect(job.run_at).toBeGreaterThanOrEqual(before - 1);
  expect(job.run_at).toBeLessThanOrEqual(after + 1);
  expect(job.created_at).toBe(job.run_at);
  expect(events(1)).toEqual(['job-queued']);
  clock.at = after + 1;
  expect(await queue.claim()).toMatchObject({ id: 1, data: { to: 'a@example.org' }, attempt: 1 });
});

test('numbers that were bound as text are numbers', async () => {
  const { root, row } = await openTestQueue();
  changeLog(root, add('run_at, priority, parent_id', `'${START}', '700', '7'`));
  expect(row(1)).toMatchObject({ run_at: START, priority: 700, parent_id: 7 });
});

const PRIORITIES = "a job's priority is a whole number from -9007199254740991 to 9007199254740991";

test.each([
  ['data', `'{'`, "a job's data is JSON of at most 1 MiB"],
  ['data', `'"' || printf('%.*c', 1048575, 'x') || '"'`, "a job's data is JSON of at most 1 MiB"],
  ['priority', `'high'`, "a job's priority is a whole number"],
  ['priority', '1.5', "a job's priority is a whole number"],
  ['priority', '9223372036854775807', PRIORITIES],
  ['priority', '9007199254740992', PRIORITIES],
  ['priority', '-9007199254740992', PRIORITIES],
  ['run_at', `'2026-12-24 18:00'`, "a job's run_at is in milliseconds since 1970"],
  ['run_at', `strftime('%s', 'now') + 0.5`, "a job's run_at is in milliseconds since 1970"],
  ['data', `cast('{}' as blob)`, "a job's data is JSON of at most 1 MiB"],
  ['run_at', '-1', "a job's run_at is in milliseconds since 1970"],
  ['lease_ms', `'30s'`, "a job's lease_ms is a whole number from 1 to 8640000000000"],
  ['lease_ms', '8640000000001', "a job's lease_ms is a whole number from 1 to 8640000000000"],
  ['created_at', `'2026-12-24'`, "a job's created_at is in milliseconds since 1970"],
  ['created_at', '8640000000000001', "a job's created_at is in milliseconds since 1970"],
  ['scheduled_for', `'tomorrow'`, "a job's scheduled_for is in milliseconds since 1970"],
  ['attempts', `x'01'`, "a job's counters are whole numbers"],
  ['lease_extended', `'often'`, "a job's counters are whole numbers"],
  ['started_at', `x'01'`, "a job's instants are in milliseconds since 1970"],
  ['finished_at', '8640000000000001', "a job's instants are in milliseconds since 1970"],
  ['parent_id', `x'01'`, "a job's parent_id is a whole number"],
  ['reason', `x'01'`, "a job's texts are text"],
  ['unique_key', `x'01'`, "a job's texts are text"],
  ['retry', `x'01'`, "a job's texts are text"],
  ['ready', '2', 'a job is ready or not as long as it waits in the queue'],
  ['ready', 'null', 'a job is ready or not as long as it waits in the queue'],
  ['state', `'done'`, 'state in'],
  ['missed_policy', `'never'`, 'missed_policy in'],
  ['on_child_failure', `'stop'`, 'on_child_failure in'],
])('a wrong %s is refused by what it is to be: %s', async (column, value, words) => {
  const { root, dump } = await openTestQueue();
  const before = dump();
  expect(() => changeLog(root, add(column, value))).toThrow(`CHECK constraint failed: ${words}`);
  expect(dump()).toBe(before);
});

test('the highest and the lowest priority there are come first and last', async () => {
  const { root, queue, clock } = await openTestQueue();
  for (const priority of ['-9007199254740991', '500', '9007199254740991']) {
    changeLog(root, add('priority', priority));
  }
  clock.at = Date.now() + 1;
  const claimed = await queue.claimMany('*', 3);
  expect(claimed.map(({ id }) => id)).toEqual([3, 2, 1]);
});

test.each(["''", `printf('%.*c', 256, 'n')`, `x'6d61696c'`, `'a' || char(0) || 'b'`])(
  'a wrong name is refused: %s',
  async (name) => {
    const { root } = await openTestQueue();
    expect(() => changeLog(root, `insert into jobs (name) values (${name})`)).toThrow(
      "CHECK constraint failed: a job's name is text of 1 to 255 characters",
    );
  },
);

test('data of exactly 1 MiB is taken, and the second of a unique key is not', async () => {
  const { root, row } = await openTestQueue();
  changeLog(root, add('data', `'"' || printf('%.*c', 1048574, 'x') || '"'`));
  expect(row(1).data).toHaveLength(1_048_576);
  changeLog(root, add('unique_key', `'k'`));
  expect(() => changeLog(root, add('unique_key', `'k'`))).toThrow('UNIQUE constraint failed: jobs.unique_key');
});

test('each job of many is told of, and no script', async () => {
  const { root, events } = await openTestQueue();
  changeLog(
    root,
    `insert into jobs (name, tier, state, ready) values ('a', null, 'queued', 0),
       ('b', null, 'paused', null), ('hourly/c', 'hourly', 'queued', null)`,
  );
  expect([1, 2, 3].map(events)).toEqual([['job-queued'], ['job-queued'], []]);
});

test('a child with a rule, which only SQL can add, ends like any other', async () => {
  const { root, queue, take, row } = await openTestQueue();
  const parent = await take('parent');
  changeLog(
    root,
    `insert into jobs (name, parent_id, repeat, state, ready, run_at)
     values ('child', ?, 'FINISHED, +1 HOUR', 'paused', null, ?)`,
    ...[parent.id, START],
  );
  await queue.finish(parent);
  await queue.finish((await queue.claim('child')) ?? 0);
  expect([row(parent.id).state, row(parent.id + 1).state]).toEqual(['queued', 'finished']);
});

test('a rule that is none fails its job once it has finished, and says so', async () => {
  const { root, queue, row, clock } = await openTestQueue();
  changeLog(root, add('repeat', `'sometimes'`));
  clock.at = Date.now() + 1;
  await queue.finish((await queue.claim()) ?? 0, { result: 7 });
  expect(row(1)).toMatchObject({
    state: 'failed',
    result: '7',
    claim_token: null,
    reason: expect.stringMatching(/^its rule "sometimes" gives no next time: /),
  });
});
