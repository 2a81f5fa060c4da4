import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { openTestQueue, START } from '../support/test-queue.ts';

const add = (columns: string, values: string) =>
  `insert into jobs (name, ${columns}) values ('mail/welcome', ${values})`;

test('a name and data are enough: defaults and the trigger do the rest', async () => {
  const { db, row, events, queue, clock } = await openTestQueue();
  const before = Date.now();
  await sql.raw(add('data', `'{"to":"a@example.org"}'`)).execute(db);
  const after = Date.now();
  const job = row(1);
  expect(job).toMatchObject({ state: 'queued', tier: null, priority: 500, missed: 'all' });
  // The default is computed by SQLite, in days since the year -4713.
  expect(job.run_at).toBeGreaterThanOrEqual(before - 1);
  expect(job.run_at).toBeLessThanOrEqual(after + 1);
  expect(job.created_at).toBe(job.run_at);
  expect(events(1)).toEqual(['job-queued']);
  clock.at = after + 1;
  expect(await queue.claim()).toMatchObject({ id: 1, data: { to: 'a@example.org' }, attempt: 1 });
});

test('numbers that were bound as text are numbers', async () => {
  const { db, row } = await openTestQueue();
  await sql.raw(add('run_at, priority, parent_id', `'${START}', '700', '7'`)).execute(db);
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
  ['max_attempts', '0', "a job's max_attempts is a whole number from 1 on"],
  ['lease_ms', `'30s'`, "a job's lease_ms is a whole number from 1 to 8640000000000"],
  ['lease_ms', '8640000000001', "a job's lease_ms is a whole number from 1 to 8640000000000"],
  ['created_at', `'2026-12-24'`, "a job's created_at is in milliseconds since 1970"],
  ['created_at', '8640000000000001', "a job's created_at is in milliseconds since 1970"],
  ['scheduled_for', `'tomorrow'`, "a job's scheduled_for is in milliseconds since 1970"],
  ['attempts', `x'01'`, "a job's counters are whole numbers"],
  ['kicks', `'often'`, "a job's counters are whole numbers"],
  ['started_at', `x'01'`, "a job's instants are in milliseconds since 1970"],
  ['finished_at', '8640000000000001', "a job's instants are in milliseconds since 1970"],
  ['parent_id', `x'01'`, "a job's parent_id and claimed_by are whole numbers"],
  ['reason', `x'01'`, "a job's texts are text"],
  ['unique_key', `x'01'`, "a job's texts are text"],
  ['state', `'done'`, 'state in'],
  ['missed', `'never'`, 'missed in'],
  ['on_child_failure', `'stop'`, 'on_child_failure in'],
])('a wrong %s is refused by what it is to be: %s', async (column, value, words) => {
  const { db, dump } = await openTestQueue();
  const before = dump();
  await expect(sql.raw(add(column, value)).execute(db)).rejects.toThrow(
    `CHECK constraint failed: ${words}`,
  );
  expect(dump()).toBe(before);
});

test('the highest and the lowest priority there are come first and last', async () => {
  const { db, queue, clock } = await openTestQueue();
  for (const priority of ['-9007199254740991', '500', '9007199254740991']) {
    await sql.raw(add('priority', priority)).execute(db);
  }
  clock.at = Date.now() + 1;
  const claimed = await queue.claimMany('*', 3);
  expect(claimed.map(({ id }) => id)).toEqual([3, 2, 1]);
});

test.each(["''", `printf('%.*c', 256, 'n')`, `x'6d61696c'`, `'a' || char(0) || 'b'`])(
  'a wrong name is refused: %s',
  async (name) => {
    const { db } = await openTestQueue();
    await expect(sql.raw(`insert into jobs (name) values (${name})`).execute(db)).rejects.toThrow(
      "CHECK constraint failed: a job's name is text of 1 to 255 characters",
    );
  },
);

test('data of exactly 1 MiB is taken, and the second of a unique key is not', async () => {
  const { db, row } = await openTestQueue();
  await sql.raw(add('data', `'"' || printf('%.*c', 1048574, 'x') || '"'`)).execute(db);
  expect(row(1).data).toHaveLength(1_048_576);
  await sql.raw(add('unique_key', `'k'`)).execute(db);
  await expect(sql.raw(add('unique_key', `'k'`)).execute(db)).rejects.toThrow(
    'UNIQUE constraint failed: jobs.unique_key',
  );
});

test('the trigger tells of each job of many, in the state in which it begins, and of no script', async () => {
  const { db, events } = await openTestQueue();
  await sql
    .raw(
      `insert into jobs (name, tier, state) values ('a', null, 'queued'), ('b', null, 'paused'), ('hourly/c', 'hourly', 'queued')`,
    )
    .execute(db);
  expect([1, 2, 3].map(events)).toEqual([['job-queued'], ['job-paused'], []]);
});

test('a child with a rule, which only SQL can add, ends like any other', async () => {
  const { db, queue, take, row } = await openTestQueue();
  const parent = await take('parent');
  await db
    .insertInto('jobs')
    .values({
      name: 'child',
      parent_id: parent.id,
      repeat: 'FINISHED, +1 HOUR',
      state: 'paused',
      run_at: START,
    })
    .execute();
  await queue.finish(parent);
  await queue.finish((await queue.claim('child')) ?? 0);
  expect([row(parent.id).state, row(parent.id + 1).state]).toEqual(['queued', 'finished']);
});

test('a rule that is none fails its job once it has finished, and says so', async () => {
  const { db, queue, row, clock } = await openTestQueue();
  await sql.raw(add('repeat', `'sometimes'`)).execute(db);
  clock.at = Date.now() + 1;
  await queue.finish((await queue.claim()) ?? 0, { result: 7 });
  expect(row(1)).toMatchObject({
    state: 'failed',
    result: '7',
    claim_token: null,
    reason: expect.stringMatching(/^its rule "sometimes" gives no next time: /),
  });
});
