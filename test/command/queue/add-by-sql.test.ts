import { expect, test } from 'vitest';
import { changeLog, queryLog } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START } from '../../support/queue.ts';

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

test('times of a machine that believes to be in 1970 are taken, and what a rule makes of them', async () => {
  const { root, row } = await openTestQueue();
  changeLog(root, add('run_at, created_at', '5000, 4000'));
  changeLog(root, add('run_at, scheduled_for, repeat', "3600000, 3600000, 'SCHEDULED, +1 HOUR'"));
  changeLog(root, `update jobs set run_at = 9000, started_at = 1, attempts = 1 where id = 2`);
  expect([row(1).run_at, row(2).run_at]).toEqual([5000, 9000]);
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
  ['run_at', `strftime('%s', 'now') + 3600`, "a job's run_at is in milliseconds since 1970, not in seconds"],
  ['run_at', '-1', "a job's run_at is in milliseconds since 1970"],
  ['lease_ms', `'30s'`, "a job's lease_ms is a whole number from 1 to 8640000000000"],
  ['lease_ms', '8640000000001', "a job's lease_ms is a whole number from 1 to 8640000000000"],
  ['created_at', `'2026-12-24'`, "a job's created_at is in milliseconds since 1970"],
  ['created_at', '8640000000000001', "a job's created_at is in milliseconds since 1970"],
  ['scheduled_for', `'tomorrow'`, "a job's scheduled_for is in milliseconds since 1970"],
  ['attempts', `x'01'`, "a job's attempts are a whole number from 0 to 9007199254740991"],
  ['attempts', '9223372036854775807', "a job's attempts are a whole number from 0 to 9007199254740991"],
  ['attempts', '-1', "a job's attempts are a whole number from 0 to 9007199254740991"],
  ['lease_extended', `'often'`, "a job's counters are whole numbers"],
  ['started_at', `x'01'`, "a job's instants are in milliseconds since 1970"],
  ['finished_at', '8640000000000001', "a job's instants are in milliseconds since 1970"],
  ['parent_id', `x'01'`, "a job's parent_id is a whole number"],
  ['reason', `x'01'`, "a job's texts are text"],
  ['unique_key', `x'01'`, "a job's texts are text"],
  ['retry', `x'01'`, "a job's texts are text"],
  ['ready', '3', 'a job is ready or not as long as it waits in the queue'],
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

// What a table of every engine takes, and each other entry refuses.
test.each([
  ['retry', `'often, later'`, 'its retry must be retries and their delay such as 3 or "3 5m", found "often, later"'],
  ['retry', `'101'`, 'its retry must be retries and their delay such as 3 or "3 5m", found "101"'],
  ['retry', `'2.5 1m'`, 'its retry must be retries and their delay such as 3 or "3 5m", found "2.5 1m"'],
  ['retry', `'3 soon'`, 'its retry must be retries and their delay such as 3 or "3 5m", found "3 soon"'],
  ['unique_key', "''", 'its unique_key must be text of 1 to 255 whole characters, found ""'],
  ['unique_key', `'${'k'.repeat(256)}'`, /^its unique_key must be text of 1 to 255 whole characters, found "k/],
  ['concurrency_key', "''", 'its concurrency_key must be text of 1 to 255 whole characters, found ""'],
] as const)('a %s that is %s fails its job before the first try', async (column, value, reason) => {
  const { root, queue, row, clock } = await openTestQueue();
  changeLog(root, add(column, value));
  changeLog(root, add('priority', '1'));
  clock.at = Date.now() + 1;
  expect(await queue.claim()).toMatchObject({ id: 2 });
  const why = typeof reason === 'string' ? reason : expect.stringMatching(reason);
  expect(row(1)).toMatchObject({ state: 'failed', attempts: 0, claim_token: null, reason: why });
});

test.each(['3', ' 3  5m ', '-', '- exponential 30s 6h', '', '0'])('a retry of %j is taken', async (retry) => {
  const { root, queue, clock } = await openTestQueue();
  changeLog(root, add('retry', `'${retry}'`));
  clock.at = Date.now() + 1;
  expect(await queue.claim()).toMatchObject({ id: 1 });
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

test('a rule that is none fails its job, and says so: at once, or where it came later, once it has finished', async () => {
  const { root, queue, row, clock } = await openTestQueue();
  changeLog(root, add('repeat', `'sometimes'`));
  changeLog(root, add('repeat', `'FINISHED, +1 HOUR'`));
  clock.at = Date.now() + 1;
  const second = await queue.claim();
  expect(row(1)).toMatchObject({
    ...{ state: 'failed', attempts: 0, started_at: null, claim_token: null },
    reason: expect.stringMatching(/^The repeat rule "sometimes" is wrong: /),
  });
  expect(queryLog(root, 'select subject, code, message from incidents')).toEqual([
    { subject: 'queue/mail/welcome', code: 'script-failing', message: row(1).reason },
  ]);
  changeLog(root, `update jobs set repeat = 'sometimes' where id = 2`);
  await queue.finish(second ?? 0, { result: 7 });
  expect(row(2)).toMatchObject({
    state: 'failed',
    result: '7',
    claim_token: null,
    reason: expect.stringMatching(/^its rule "sometimes" gives no next time: /),
  });
});

test.each(["''", "'  '"])('an empty rule is none: %s', async (rule) => {
  const { root, queue, row, clock } = await openTestQueue();
  changeLog(root, add('repeat', rule));
  clock.at = Date.now() + 1;
  await queue.finish((await queue.claim()) ?? 0);
  expect(row(1)).toMatchObject({ state: 'finished', repeat: null });
});

test('a rule for a time of the day waits for it, unless another time was given', async () => {
  const { root, queue, row, clock } = await openTestQueue();
  const days = 86_400_000;
  clock.at = Math.floor(Date.now() / days + 1) * days;
  const at = clock.at - HOUR_MS;
  changeLog(root, add('repeat, run_at, created_at', `'daily at 02:00 in UTC', ${at}, ${at}`));
  expect(await queue.claim()).toBeNull();
  const due = clock.at + 2 * HOUR_MS;
  expect(row(1)).toMatchObject({ state: 'queued', run_at: due, scheduled_for: due, attempts: 0, started_at: null });
  clock.at = due;
  expect(await queue.claim()).toMatchObject({ id: 1, attempt: 1, scheduledFor: new Date(due) });
  changeLog(root, add('repeat, run_at, created_at', `'daily at 02:00 in UTC', ${at + 1}, ${at}`));
  expect(await queue.claim()).toMatchObject({ id: 2, scheduledFor: new Date(at + 1) });
});

test('a job that tells of more tries than can be is not tried, and stands in nobody’s way', async () => {
  const { root, queue, row, clock } = await openTestQueue();
  changeLog(root, add('attempts', '9007199254740991'));
  changeLog(root, add('attempts', '2'));
  clock.at = Date.now() + 1;
  expect(await queue.claim()).toMatchObject({ id: 2, attempt: 3 });
  expect(row(1)).toMatchObject({
    state: 'failed',
    reason: 'its row counts a billion tries or more, which cannot be true',
  });
});

/** The number of the next job is 3; of two that are each other's parents the first one is 3. */
test.each([
  ['3', 'failed', 'it is its own parent'],
  ['4', 'failed', 'its parent, job 4, is a child itself; a child cannot have children'],
  ['99', 'failed', 'its parent, job 99, does not exist'],
  ['9223372036854775807', 'failed', 'its parent, job 9223372036854776000, does not exist'],
  ['1', 'cancelled', 'its parent, job 1, has ended'],
  ['2', 'paused', null],
])('a child of %s by SQL is %s', async (parent, state, reason) => {
  const { root, queue, row, clock } = await openTestQueue();
  clock.at = Date.now() + 1;
  await queue.add('other');
  await queue.finish((await queue.claim('other')) ?? 0);
  await queue.add('parent');
  changeLog(root, add('parent_id', parent));
  changeLog(root, `insert into jobs (name, parent_id) values ('mail/other', 3)`);
  clock.at += 1_000;
  expect(await queue.claim('mail/*')).toBeNull();
  expect(row(3)).toMatchObject({ state, reason, attempts: 0, claim_token: null });
  const message = { message: reason };
  const told = queryLog(root, 'select message from incidents');
  if (state !== 'paused') expect(told).toEqual(state === 'failed' ? [message] : []);
  if (parent === '4') expect(row(4).state).toBe('cancelled');
  if (state !== 'paused') return;
  await queue.finish((await queue.claim('parent')) ?? 0);
  expect(row(2).state).toBe('paused');
  await queue.finish((await queue.claim('mail/welcome')) ?? 0);
  expect([row(2).state, row(3).state]).toEqual(['queued', 'finished']);
});
