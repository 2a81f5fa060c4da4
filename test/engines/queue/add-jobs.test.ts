import { describe, expect, test } from 'vitest';
import type { DuplicatePolicy, JobOptions, NewJob } from '../../../src/queue/api.ts';
import type { LoggedJob } from '../../support/engines/engine.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { HOUR_MS, MINUTE_MS, openTestQueue, START } from '../../support/queue.ts';

const MEBIBYTE = 1024 * 1024;

describe('what a job is added with', () => {
  test('nothing but a name', async () => {
    const { queue, row, events } = await openTestQueue();
    const id = await queue.add('mail/welcome');
    expect(row(id)).toMatchObject({
      name: 'mail/welcome',
      tier: null,
      state: 'queued',
      data: '{}',
      result: null,
      priority: 500,
      scheduled_for: null,
      run_at: START,
      attempts: 0,
      retry: null,
      repeat: null,
      missed_policy: 'all',
      unique_key: null,
      concurrency_key: null,
      parent_id: null,
      on_child_failure: null,
      lease_ms: null,
      created_at: START,
      finished_at: null,
    });
    expect(events(id)).toEqual(['job-queued']);
  });

  const local = (...parts: readonly [number, number, number, number?, number?, number?]) => {
    const [year, month, ...rest] = parts;
    return new Date(year, month - 1, ...(rest as [number])).getTime();
  };

  test.each<[Partial<NewJob>, Partial<LoggedJob>]>([
    [{ data: { to: 'ä', n: [1, null] } }, { data: '{"to":"ä","n":[1,null]}' }],
    [{ data: [] }, { data: '[]' }],
    [{ data: 'text' }, { data: '"text"' }],
    [{ data: null }, { data: 'null' }],
    [{ data: 0 }, { data: '0' }],
    [{ priority: 1000 }, { priority: 1000 }],
    [{ priority: -3 }, { priority: -3 }],
    [{ priority: Number.MAX_SAFE_INTEGER }, { priority: Number.MAX_SAFE_INTEGER }],
    [{ retries: 0 }, { retry: '0' }],
    [{ retries: 100 }, { retry: '100' }],
    [{ retryDelay: '5m' }, { retry: '- 5m' }],
    [{ retries: 3, retryDelay: 'exponential 1m 1h' }, { retry: '3 exponential 1m 1h' }],
    [{ uniqueKey: 'k'.repeat(255) }, { unique_key: 'k'.repeat(255) }],
    [{ group: 'customer 7' }, { concurrency_key: 'customer 7' }],
    [{ lease: '90s' }, { lease_ms: 90_000 }],
    [{ onChildFailure: 'fail' }, { on_child_failure: 'fail' }],
    [{ missed: 'once', repeat: 'HOURLY' }, { missed_policy: 'once' }],
    [{ repeat: 'scheduled, +1 hour' }, { repeat: 'SCHEDULED, +1 HOUR', scheduled_for: START }],
    [{ repeat: '' }, { repeat: null, scheduled_for: null }],
    [{ repeat: 'daily at 10:00 in UTC' }, { run_at: START + 21 * HOUR_MS, scheduled_for: START + 21 * HOUR_MS }],
    [
      { repeat: 'FINISHED, +1 HOUR', runAt: '+2h' },
      { run_at: START + 2 * HOUR_MS, scheduled_for: START + 2 * HOUR_MS },
    ],
    [{ runAt: 'now' }, { run_at: START }],
    [{ runAt: 0 }, { run_at: 0 }],
    [{ runAt: START + 5 }, { run_at: START + 5 }],
    [{ runAt: new Date(START + 7) }, { run_at: START + 7 }],
    [{ runAt: '+10 minutes' }, { run_at: START + 10 * MINUTE_MS }],
    [{ runAt: '+0s' }, { run_at: START }],
    [{ runAt: 1e11 }, { run_at: 1e11 }],
    [{ runAt: 0 }, { run_at: 0 }],
    [{ runAt: ' + 1h ' }, { run_at: START + HOUR_MS }],
    [{ runAt: '2026-12-24' }, { run_at: local(2026, 12, 24) }],
    [{ runAt: '2026-12-24 18:00' }, { run_at: local(2026, 12, 24, 18) }],
    [{ runAt: '2026-12-24T18:00:30' }, { run_at: local(2026, 12, 24, 18, 0, 30) }],
    [{ runAt: '2026-12-24T18:00Z' }, { run_at: Date.UTC(2026, 11, 24, 18) }],
    [{ runAt: '2026-12-24 18:00:01.5+01:00' }, { run_at: Date.UTC(2026, 11, 24, 17, 0, 1, 500) }],
    [{ runAt: '2024-02-29' }, { run_at: local(2024, 2, 29) }],
  ])('%j', async (options, columns) => {
    const { queue, row } = await openTestQueue();
    const [id = 0] = await queue.addMany([{ name: 'a', ...options } as NewJob]);
    expect(row(id)).toMatchObject(columns);
  });

  test.each(['mail/welcome?user=7', 'fetch?url=https://a.example/../b', 'a?'])(
    'the name %s: parameters are no path',
    async (name) => {
      const { queue, row } = await openTestQueue();
      expect(row(await queue.add(name)).name).toBe(name);
    },
  );

  test('a name of 255 characters, and data of exactly 1 MiB', async () => {
    const { queue, row } = await openTestQueue();
    const data = 'x'.repeat(MEBIBYTE - 2);
    const id = await queue.add('n'.repeat(255), data);
    expect(row(id)).toMatchObject({ name: 'n'.repeat(255), data: `"${data}"` });
    // A character may be several bytes: these are as many bytes, and half as many characters.
    await queue.add('a', 'ä'.repeat(MEBIBYTE / 2 - 1));
  });

  test('data that is as deep as SQLite reads', async () => {
    const { queue, row } = await openTestQueue();
    const text = `${'['.repeat(1000)}${']'.repeat(1000)}`;
    expect(row(await queue.add('a', JSON.parse(text))).data).toBe(text);
    // Brackets in a text are none.
    await queue.add('a', [`\\"${'['.repeat(MEBIBYTE / 2)}`]);
  });
});

const name = "A job's name must be a handler's path such as mail/welcome, 1 to 255 characters";
const time = 'A time must be one such as +10 minutes, tomorrow 07:00, 2026-12-24 18:00 or 2026-12-24T18:00Z';
const data = "A job's data must be JSON of at most 1 MiB";

describe('what is refused, in a sentence', () => {
  const circular: Record<string, unknown> = {};
  circular.self = circular;

  test.each<[object, string]>([
    [{ name: '' }, `${name}, found "".`],
    [{ name: undefined }, `${name}, found undefined.`],
    [{ name: 7 }, `${name}, found 7.`],
    [{ name: 'n'.repeat(256) }, `${name}, found "${'n'.repeat(79)}….`],
    [{ name: '/mail' }, `${name}, found "/mail".`],
    [{ name: ' ' }, `${name}, found " ".`],
    [{ name: 'mail/ ' }, `${name}, found "mail/ ".`],
    [{ name: 'mail//a' }, `${name}, found "mail//a".`],
    [{ name: 'mail/../a' }, `${name}, found "mail/../a".`],
    [{ name: '?user=7' }, `${name}, found "?user=7".`],
    [{ name: 'mail/../a?user=7' }, `${name}, found "mail/../a?user=7".`],
    [{ name: 'mail/.' }, `${name}, found "mail/.".`],
    [{ name: 'a\nb' }, `${name}, found "a\\nb".`],
    [{ name: 'a\ud800' }, `${name}, found "a\\ud800".`],
    [{ data: 'x'.repeat(MEBIBYTE - 1) }, `${data}, found 1048577 bytes; put large data into a file and pass its name.`],
    [{ data: 'ä'.repeat(MEBIBYTE / 2) }, `${data}, found 1048578 bytes; put large data into a file and pass its name.`],
    [{ data: 1n }, "A job's data cannot be written as JSON: Do not know how to serialize a BigInt."],
    [{ data: () => 1 }, 'A job\'s data must be a value that JSON can hold, found "function".'],
    [
      { data: JSON.parse(`${'['.repeat(1001)}${']'.repeat(1001)}`) },
      "A job's data must be JSON nested at most 1000 deep.",
    ],
    [{ priority: 1.5 }, 'A priority must be a whole number such as 500, found 1.5.'],
    [{ priority: '500' }, 'A priority must be a whole number such as 500, found "500".'],
    [{ priority: null }, 'A priority must be a whole number such as 500, found null.'],
    [{ priority: 2 ** 53 }, 'A priority must be a whole number such as 500, found 9007199254740992.'],
    [{ retries: -1 }, 'The number of retries must be a whole number from 0 to 100, found -1.'],
    [{ retries: 101 }, 'The number of retries must be a whole number from 0 to 100, found 101.'],
    [{ retries: 0.5 }, 'The number of retries must be a whole number from 0 to 100, found 0.5.'],
    [
      { retryDelay: 'soon' },
      'The retry delay must be a duration such as 5m, or exponential with a first and a longest one, such as exponential 1m 1h, found "soon".',
    ],
    [{ uniqueKey: '' }, 'A unique key must be text of 1 to 255 whole characters, found "".'],
    [{ uniqueKey: 7 }, 'A unique key must be text of 1 to 255 whole characters, found 7.'],
    [{ group: 'g'.repeat(256) }, `A group must be text of 1 to 255 whole characters, found "${'g'.repeat(79)}….`],
    [{ uniqueKey: 'k\ud800' }, 'A unique key must be text of 1 to 255 whole characters, found "k\\ud800".'],
    [{ group: '\udfffg' }, 'A group must be text of 1 to 255 whole characters, found "\\udfffg".'],
    [{ priority: { a: 1n } }, 'A priority must be a whole number such as 500, found a value that is not JSON.'],
    [
      { onDuplicate: 'overwrite' },
      'The policy for duplicates must be one of keep, replace, merge, replace-all, found "overwrite".',
    ],
    [{ missed: 'none' }, 'The policy for missed times must be one of all, once, skip, found "none".'],
    [{ onChildFailure: 'stop' }, 'The policy for failed children must be one of resume, fail, found "stop".'],
    [{ lease: '0s' }, 'A lease must be a duration such as 30s, 10m or 2h, found "0s".'],
    [{ lease: '99999999d' }, 'A lease must be a duration of at most 100000d, found "99999999d".'],
    [{ lease: 30 }, 'A lease must be a duration such as 30s, 10m or 2h, found 30.'],
    [{ onDuplicate: 'merge' }, 'A policy for duplicates needs a unique key.'],
    [{ missed: 'skip' }, 'A policy for missed times needs a repeat rule.'],
    [
      { repeat: `FINISHED${', +999 YEARS'.repeat(9)}` },
      `"FINISHED${', +999 YEARS'.repeat(9)}" gives no time: it goes beyond the year 9999.`,
    ],
    [{ parent: 0 }, "The parent must be a job's number, found 0."],
    [{ parent: '1' }, 'The parent must be a job\'s number, found "1".'],
    [{ repeat: 7 }, 'A repeat rule must be text such as SCHEDULED, +1 HOUR, found 7.'],
    [
      { repeat: 'FINISHED, +1 HOUR', parent: 1 },
      'A child cannot repeat: its parent would wait for ever; let the parent repeat.',
    ],
    ...[
      ...['', 'someday', '+', '+soon', '-1h', '10:60', '2026-13-01', '2026-02-30', '2025-02-29'],
      ...['2026-02-30T10:00Z', '2026-01-01T25:00Z', '2026-01-01T00:00+25:00', '2026-01-01 24:00'],
      ...['2026-01-01 00:60', '2026-1-1', '26-01-01', -1, 1.5, 8.64e15 + 1, null, true],
      ...[[], new Date(Number.NaN)],
    ].map((runAt): [object, string] => [{ runAt }, `${time}, found ${JSON.stringify(runAt) ?? String(runAt)}.`]),
    ...[1, START / 1000 + 3_600, 1e11 - 1].map((runAt): [object, string] => [
      { runAt },
      `A time must be milliseconds since 1970 such as ${runAt}000, not seconds, found ${runAt}.`,
    ]),
    ...['1972-05-03 10:00', '1972-05-03T10:00Z', new Date(1), new Date(1e11 - 1)].map((runAt): [object, string] => [
      { runAt },
      `A time of a job must be 1973-03-03T09:46:40.000Z or later, or left out where the job is due now, found ${JSON.stringify(runAt)}.`,
    ]),
    [{ runAt: Number.NaN }, `${time}, found NaN.`],
    [{ data: circular }, "A job's data cannot be written as JSON: Converting circular structure"],
  ])('%o', async (options, message) => {
    const { queue, dump } = await openTestQueue();
    const before = dump();
    const error = await queue.addMany([{ name: 'a', ...options } as NewJob]).catch((thrown) => thrown);
    expect(error).toMatchObject({ name: 'QueueError', code: 'invalid' });
    expect((error as Error).message.slice(0, message.length)).toBe(message);
    expect(dump()).toBe(before);
  });
});

describe('many at once', () => {
  test('all or none: the message says which one is wrong', async () => {
    const { queue, dump } = await openTestQueue();
    const before = dump();
    const jobs = [{ name: 'a' }, { name: 'mail/b', priority: 1.5 }, { name: 'c' }];
    await expect(queue.addMany(jobs)).rejects.toMatchObject({
      code: 'invalid',
      message: 'Job 2 of 3 ("mail/b"): A priority must be a whole number such as 500, found 1.5.',
    });
    await expect(queue.addMany([{ name: 'a' }, { name: 'b', parent: 99 }])).rejects.toMatchObject({
      code: 'no-such-job',
    });
    expect(dump()).toBe(before);
    expect(await queue.addMany([])).toEqual([]);
  });

  test('10,000 in one call, numbered in their order, each told of once', async () => {
    const { queue, root } = await openTestQueue();
    const jobs = Array.from({ length: 10_000 }, (_, n) => ({ name: `a/${n % 7}`, data: { n }, priority: n % 3 }));
    const ids = await queue.addMany(jobs);
    const rows = queryLog<{ id: number; data: string; name: string }>(
      root,
      'select id, name, data from jobs order by id',
    );
    expect(rows.map(({ id }) => id)).toEqual(ids);
    expect(rows.map((row) => JSON.parse(row.data).n)).toEqual(jobs.map((job) => job.data.n));
    expect(rows.every(({ name }, n) => name === `a/${n % 7}`)).toBe(true);
    const told = `select count(*) as jobs, count(distinct job_id) as told from activity where event = 'job-queued'`;
    expect(queryLog(root, told)).toEqual([{ jobs: 10_000, told: 10_000 }]);
  });

  test('much more than one statement can take is still one transaction', async () => {
    const { queue, root, dump } = await openTestQueue();
    const large = Array.from({ length: 30 }, (_, n) => ({ name: 'a', data: `${n}:${'x'.repeat(MEBIBYTE - 10)}` }));
    const before = dump();
    await expect(queue.addMany([...large, { name: 'b', parent: 99 }])).rejects.toThrow('99');
    expect(dump()).toBe(before);
    const ids = await queue.addMany(large);
    const rows = queryLog(root, 'select id, substr(data, 2, 2) as n from jobs order by id');
    expect(rows).toEqual(ids.map((id, n) => ({ id, n: n < 10 ? `${n}:` : String(n) })));
  });
});

describe('a unique key', () => {
  test('is told of: whether the job was added, of each in a list', async () => {
    const { queue } = await openTestQueue();
    const options = { uniqueKey: 'k' };
    expect(await queue.addUnique('a', {}, options)).toEqual({ id: 1, added: true, changed: false, ignored: [] });
    expect(await queue.addUnique('a', {}, options)).toEqual({ id: 1, added: false, changed: false, ignored: ['data'] });
    expect(await queue.add('a', {}, options)).toBe(1);
    const jobs = [{ name: 'b' }, { name: 'a', ...options }, { name: 'c', uniqueKey: 'c' }];
    expect(await queue.addManyUnique(jobs)).toEqual([
      { id: 2, added: true, changed: false, ignored: [] },
      { id: 1, added: false, changed: false, ignored: [] },
      { id: 3, added: true, changed: false, ignored: [] },
    ]);
    expect(await queue.addManyUnique([{ name: 'b' }])).toEqual([{ id: 4, added: true, changed: false, ignored: [] }]);
  });

  test('tells what the job that has it took, and what it did not', async () => {
    const { queue, row } = await openTestQueue();
    const id = await queue.add('a', { n: 1 }, { uniqueKey: 'k', repeat: 'SCHEDULED, +1 HOUR' });
    const inAnHour = new Date(START + 3_600_000);
    const again = async (onDuplicate: DuplicatePolicy, options: JobOptions = {}) => {
      const given = { uniqueKey: 'k', onDuplicate, ...options };
      return await queue.addUnique('a', { n: 2 }, given);
    };
    const kept = { id, added: false, changed: false };
    expect(await again('keep', { priority: 7 })).toEqual({ ...kept, ignored: ['data', 'priority'] });
    expect(row(id)).toMatchObject({ data: '{"n":1}', priority: 500 });
    expect(await again('replace', { runAt: inAnHour, priority: 7 })).toEqual({
      ...kept,
      changed: true,
      ignored: ['runAt', 'priority'],
    });
    expect(row(id)).toMatchObject({ data: '{"n":2}', priority: 500, repeat: 'SCHEDULED, +1 HOUR' });
    const whole = { runAt: inAnHour, priority: 7, retries: 3, group: 'g', lease: '10m', missed: 'once' } as const;
    const rule = { repeat: 'SCHEDULED, +2 HOURS' };
    expect(await again('replace-all', { ...whole, ...rule })).toEqual({ ...kept, changed: true, ignored: [] });
    expect(row(id)).toMatchObject({
      ...{ repeat: rule.repeat, run_at: inAnHour.getTime(), scheduled_for: inAnHour.getTime(), priority: 7 },
      ...{ concurrency_key: 'g', lease_ms: 600_000, missed_policy: 'once', state: 'queued' },
    });
    // Only the time: its rule stays, and goes on from there.
    const later = new Date(inAnHour.getTime() + 60_000);
    await again('replace-all', { runAt: later });
    expect(row(id)).toMatchObject({ repeat: rule.repeat, run_at: later.getTime(), scheduled_for: later.getTime() });
    // What is not given stays, also the data.
    const timeAlone = { uniqueKey: 'k', onDuplicate: 'replace-all', runAt: inAnHour } as const;
    await queue.addManyUnique([{ name: 'a', ...timeAlone }]);
    expect(row(id)).toMatchObject({ data: '{"n":2}', priority: 7, run_at: inAnHour.getTime() });
    const nothing = { name: 'a', uniqueKey: 'k', onDuplicate: 'replace-all' } as const;
    expect(await queue.addManyUnique([nothing])).toEqual([{ ...kept, ignored: [] }]);
    const other = await queue.addUnique('b', {}, { uniqueKey: 'k' });
    expect(other).toEqual({ ...kept, ignored: ['name', 'data'] });
  });

  test('of a child takes no rule: it would wait for ever', async () => {
    const { queue } = await openTestQueue();
    const parent = await queue.add('a');
    await queue.claim();
    await queue.add('b', {}, { uniqueKey: 'k', parent });
    const again = queue.add('b', {}, { uniqueKey: 'k', onDuplicate: 'replace-all', repeat: 'daily at 10:00' });
    await expect(again).rejects.toThrow('cannot repeat');
  });

  const first = { a: 1, b: 2, nestedObject: { A: 1, B: 2 }, nestedArray: [1, 2] };
  const second = { c: 3, d: 4, nestedObject: { C: 3, D: 4 }, nestedArray: [3, 4] };
  const merged = {
    ...{ a: 1, b: 2, nestedObject: { A: 1, B: 2, C: 3, D: 4 }, nestedArray: [3, 4] },
    ...{ c: 3, d: 4 },
  };

  test.each([
    ['keep', first, []],
    [undefined, first, []],
    ['replace', second, ['job-updated']],
    ['merge', merged, ['job-updated']],
  ] as const)('with %s the job that waits is the one', async (onDuplicate, expected, told) => {
    const { queue, row, events } = await openTestQueue();
    const id = await queue.add('a', first, { uniqueKey: 'k', priority: 700, runAt: '+1h' });
    const before = row(id);
    const options = { uniqueKey: 'k', ...(onDuplicate && { onDuplicate }) };
    expect(await queue.add('a', second, options)).toBe(id);
    expect({ ...row(id), data: null }).toEqual({ ...before, data: null });
    expect(JSON.parse(row(id).data)).toEqual(expected);
    expect(events(id)).toEqual(['job-queued', ...told]);
  });

  test('merging takes out what is null, and replaces what is no object', async () => {
    const { queue, row } = await openTestQueue();
    const merge = { uniqueKey: 'k', onDuplicate: 'merge' } as const;
    const id = await queue.add('a', { a: 1, b: 2 }, merge);
    await queue.add('a', { a: null, c: null }, merge);
    expect(row(id).data).toBe('{"b":2}');
    await queue.add('a', [1], merge);
    expect(row(id).data).toBe('[1]');
  });

  test('merging into more than 1 MiB is refused, and changes nothing', async () => {
    const { queue, dump } = await openTestQueue();
    const merge = { uniqueKey: 'k', onDuplicate: 'merge' } as const;
    await queue.add('a', { a: 'x'.repeat(MEBIBYTE / 2) }, merge);
    const before = dump();
    await expect(queue.add('a', { b: 'x'.repeat(MEBIBYTE / 2) }, merge)).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(/^A job's data, merged, must be JSON of at most 1 MiB, found/),
    });
    expect(dump()).toBe(before);
  });

  test.each(['keep', 'replace', 'merge'] as const)(
    'of a job that runs finds it, and leaves its data: %s',
    async (onDuplicate) => {
      const { queue, take, row } = await openTestQueue();
      const job = await take('a', { uniqueKey: 'k' }, { n: 1 });
      expect(await queue.add('a', { n: 2 }, { uniqueKey: 'k', onDuplicate })).toBe(job.id);
      expect(row(job.id).data).toBe('{"n":1}');
    },
  );

  test.each(['finish', 'fail', 'bury'] as const)('of an ended job is free: %s', async (verb) => {
    const { queue, take } = await openTestQueue();
    const job = await take('a', { uniqueKey: 'k' });
    await queue[verb](job);
    expect(await queue.add('a', {}, { uniqueKey: 'k' })).not.toBe(job.id);
  });

  test('is one for all names, and in one call, too', async () => {
    const { queue } = await openTestQueue();
    const [one, other, second] = await queue.addMany([
      { name: 'a', uniqueKey: 'k' },
      { name: 'b' },
      { name: 'c', uniqueKey: 'k' },
    ]);
    expect(second).toBe(one);
    expect(other).not.toBe(one);
    // Null in the other one's middle: texts that differ only behind it are two.
    expect(await queue.add('a', {}, { uniqueKey: 'k\0a' })).not.toBe(await queue.add('a', {}, { uniqueKey: 'k\0b' }));
  });
});

describe('a child', () => {
  test('of a job that neither runs nor waits is refused, with its state', async () => {
    const { queue } = await openTestQueue();
    const parent = await queue.add('p');
    await expect(queue.add('child', {}, { parent })).rejects.toMatchObject({
      code: 'wrong-state',
      message: 'Job 1 is queued; children can be added while their parent runs or waits for other children.',
    });
  });

  test('of nobody, of a script, or of a child is refused', async () => {
    const { queue, take, root } = await openTestQueue();
    changeLog(root, `insert into jobs (name, tier, state, ready) values ('hourly/a', 'hourly', 'running', null)`);
    for (const parent of [1, 99]) {
      await expect(queue.add('child', {}, { parent })).rejects.toMatchObject({
        code: 'no-such-job',
        message: `There is no parent job ${parent}; \`npx folder-runner jobs\` lists all jobs.`,
      });
    }
    const parent = await take('parent');
    const child = await queue.add('child', {}, { parent: parent.id });
    await queue.finish(parent);
    await queue.claim('child');
    await expect(queue.add('grandchild', {}, { parent: child })).rejects.toMatchObject({
      code: 'wrong-state',
      message: `Job ${child} is a child itself; a child cannot have children.`,
    });
  });

  test('whose unique key a job of another family has is refused; one of its own is found', async () => {
    const { queue, take } = await openTestQueue();
    const [one, other] = [await take('one'), await take('other')];
    const child = await queue.add('c', {}, { parent: one.id, uniqueKey: 'k' });
    expect(await queue.add('c', {}, { parent: one.id, uniqueKey: 'k' })).toBe(child);
    await expect(queue.add('c', {}, { parent: other.id, uniqueKey: 'k' })).rejects.toMatchObject({
      code: 'wrong-state',
      message: `Job ${child} already has the unique key "k" and is a child of job ${one.id}; choose another key.`,
    });
    await queue.add('d', {}, { uniqueKey: 'l' });
    await expect(queue.add('c', {}, { parent: one.id, uniqueKey: 'l' })).rejects.toMatchObject({
      message: expect.stringMatching(/already has the unique key "l" and is not a child; choose another key\.$/),
    });
    // Who asks for no parent is given the job, whoever's it is.
    expect(await queue.add('c', {}, { uniqueKey: 'k' })).toBe(child);
  });
});
