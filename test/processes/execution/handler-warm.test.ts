import { describe, expect, test } from 'vitest';
import { machineName } from '../../../src/system/process/identity.ts';
import { openOneHandler, openPlace, runAlone } from '../../support/run.ts';

const MB = 1024 * 1024;

/** Gives back what it was given. */
const tells = `export default async (context) => {
  const { id, name, data, attempt, latenessMs, previouslyCrashed, parentData, children } = context;
  const { scheduledFor, lastSuccess } = context;
  return { id, name, data, attempt, latenessMs, previouslyCrashed, parentData, children,
    scheduledFor: scheduledFor?.toISOString() ?? null, lastSuccess: lastSuccess?.toISOString() ?? null };
};\n`;

describe('what a handler is told', () => {
  const told = {
    id: 7,
    name: 'tells',
    data: { to: 'a@example.org' },
    attempt: 1,
    latenessMs: 0,
    previouslyCrashed: false,
    parentData: null,
    children: { finished: [], failed: [], cancelled: [] },
    scheduledFor: null,
    lastSuccess: null,
  };

  test('is its job', async () => {
    const place = openPlace({ 'tells.mjs': tells });
    const { result } = await place.run('tells', { data: told.data });
    expect(JSON.parse(result ?? '')).toEqual(told);
  });

  test('is also all that is known of earlier tries, of times, of its family', async () => {
    const place = openPlace({ 'tells.mjs': tells });
    const child = { id: 8, name: 'leg', data: [1], result: { sent: true } };
    const { result } = await place.run('tells', {
      job: {
        attempt: 3,
        latenessMs: 1500,
        previouslyCrashed: true,
        parentData: '{"order":1}',
        children: JSON.stringify({ finished: [child], failed: [], cancelled: [] }),
        scheduledFor: 0,
        lastSuccess: 1000,
      },
    });
    expect(JSON.parse(result ?? '')).toEqual({
      ...told,
      data: {},
      attempt: 3,
      latenessMs: 1500,
      previouslyCrashed: true,
      parentData: { order: 1 },
      children: { finished: [child], failed: [], cancelled: [] },
      scheduledFor: '1970-01-01T00:00:00.000Z',
      lastSuccess: '1970-01-01T00:00:01.000Z',
    });
  });

  test('stands in the environment, too, for what it starts', async () => {
    const names = ['RUN', 'SCRIPT', 'JOB', 'NAME', 'ATTEMPT', 'LATENESS_MS', 'SCHEDULED_FOR'];
    const place = openPlace({
      'mail/env.mjs': `import { execFileSync } from 'node:child_process';
export default () => execFileSync('/bin/sh', ['-c', ${JSON.stringify(names.map((name) => `echo $RUNNER_${name}`).join('; '))}]).toString().split('\\n');\n`,
    });
    const run = (id: number) => place.run('mail/env', { job: { id, attempt: id, latenessMs: 20 } });
    const told = (key: string, id: number) => [key, 'queue/mail/env', `${id}`, 'mail/env', `${id}`, '20', '', ''];
    expect(JSON.parse((await run(1)).result ?? '')).toEqual(told('1.1', 1));
    expect(JSON.parse((await run(2)).result ?? '')).toEqual(told('1.2', 2));
  });
});

test.each([
  ['in a kept process', ''],
  ['in a process of its own', '// @isolate\n'],
])('a handler %s knows its machine, and nothing of how the runner talks to it', async (_, tag) => {
  const code = `${tag}export default () => [process.env.RUNNER_HOST, process.env.RUNNER_HANDLER ?? null];\n`;
  const place = openPlace({ 'a.mjs': code });
  expect(JSON.parse((await place.run('a')).result ?? '')).toEqual([machineName(), null]);
});

describe('a handler is a function that is exported', () => {
  const named = `(context) => context.name`;

  test.each([
    ['a.mjs', `export default ${named};\n`],
    ['a.js', `export default ${named};\n`],
    ['a.ts', `export default (context: { name: string }): string => context.name;\n`],
    ['a.mts', `enum Kind { A }\nexport default (context: { name: string }) => Kind.A === 0 && context.name;\n`],
    [
      'a.cts',
      `const { name } = require('./_b.cts');\nmodule.exports = (context: { name: string }): string => name(context);\n`,
    ],
    ['a.cjs', `module.exports = async ${named};\n`],
    ['a.js', `exports.default = ${named};\n`],
    ['a.ts', `import { name } from './_c';\nexport default async (c: { name: string }) => name(c);\n`],
  ])('as %s, %j', async (file, content) => {
    const place = openPlace({
      [file]: content,
      '_b.cts': `exports.name = (context: { name: string }) => context.name;\n`,
      '_c.ts': `export const name = (context: { name: string }): string => context.name;\n`,
    });
    expect(await place.run('a')).toMatchObject({
      outcome: 'succeeded',
      reason: null,
      result: '"a"',
      output: { text: '' },
    });
  });

  test.each(['export default 1;\n', 'export default class Mail {}\n', 'export const a = () => {};\n'])(
    'and %j is refused',
    async (content) => {
      const place = openPlace({ 'a.mjs': content });
      const end = await place.run('a');
      expect(end).toMatchObject({ outcome: 'failed', exitCode: null, error: null });
      expect(end.reason).toMatch(/^\/.*\/a\.mjs exports no function to call; a handler needs one/);
      expect(place.runner.pid).not.toBeNull();
    },
  );
});

describe('what it returns is the result', () => {
  test.each([
    ['undefined', undefined],
    ['null', 'null'],
    ['0', '0'],
    [`{ sent: true, at: new Date(0) }`, '{"sent":true,"at":"1970-01-01T00:00:00.000Z"}'],
    [`'é\\u2028\\n'`, '"é\u2028\\n"'],
    [`'x'.repeat(${MB - 2})`, `"${'x'.repeat(MB - 2)}"`],
  ])('%s', async (value, result) => {
    const place = openPlace({ 'a.mjs': `export default async () => (${value});\n` });
    const end = await place.run('a');
    expect(end.outcome).toBe('succeeded');
    expect(end.result).toBe(result);
  });

  test.each([
    ['10n', 'what the handler returned cannot be written as JSON: Do not know how to serialize a BigInt'],
    [
      '(() => { const a = {}; a.a = a; return a; })()',
      'what the handler returned cannot be written as JSON: Converting circular structure to JSON',
    ],
    ['() => {}', 'what the handler returned cannot be written as JSON: it is a function'],
    [`'é'.repeat(${MB / 2})`, `what the handler returned is ${MB + 2} bytes of JSON, and at most ${MB} are kept`],
  ])('but not %s', async (value, reason) => {
    const place = openPlace({ 'a.mjs': `export default async () => (${value});\n` });
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'failed', reason, error: null });
    expect(end).not.toHaveProperty('result');
    expect(place.runner.pid).toBe(place.pids[0]);
  });

  test('data of 1 MiB comes and goes', async () => {
    const place = openPlace({ 'a.mjs': 'export default ({ data }) => data;\n' });
    const data = { text: '"\\\n'.repeat(MB / 8) };
    const { result } = await place.run('a', { data });
    expect(result).toBe(JSON.stringify(data));
  });
});

describe('what it throws', () => {
  test('is the error of the run, with the lines of the source, and the process stays', async () => {
    const place = openPlace({
      'a.ts': `interface Unused {\n  readonly a: string;\n}\n
export default async ({ data }: { readonly data: Unused }) => {
  throw new TypeError('no ' + data.a, { cause: new Error('deeper') });
};\n`,
    });
    const end = await place.run('a', { data: { a: 'luck\nat all' } });
    expect(end).toMatchObject({
      outcome: 'failed',
      exitCode: null,
      signal: null,
      reason: 'TypeError: no luck',
      error: { name: 'TypeError', message: 'no luck\nat all' },
    });
    expect(end.error?.stack).toMatch(/jobs\/queue\/a\.ts:6:9/);
    expect(end.error?.stack).toContain('deeper');
    expect(await place.run('a', { data: { a: 'luck' } })).toMatchObject({ outcome: 'failed' });
    expect(new Set(place.pids).size).toBe(1);
  });

  test('has the right line also where types are not only stripped', async () => {
    const place = openPlace({
      'a.ts': `enum Kind {\n  A,\n}\nexport default () => {\n  throw new Error(String(Kind.A));\n};\n`,
    });
    expect((await place.run('a')).error?.stack).toMatch(/jobs\/queue\/a\.ts:5:9/);
  });

  test('is masked', async () => {
    const place = openPlace({
      'a.mjs': `export default ({ data, fail }) => { data ? fail('key ' + process.env.API_KEY) : JSON.parse(process.env.API_KEY); };\n`,
    });
    const variables = { API_KEY: 'abcdef-secret' };
    const end = await place.run('a', { variables, data: 0 });
    expect(JSON.stringify(end)).not.toContain('secret');
    expect(await place.run('a', { variables, data: 1 })).toMatchObject({
      reason: 'key [API_KEY]',
      ask: { kind: 'fail', reason: 'key [API_KEY]' },
    });
  });
});

describe('what it asks for', () => {
  const asks = (code: string) => openPlace({ 'a.mjs': `export default async (job) => { ${code} };\n` });

  test.each<[string, object, string, string?]>([
    ['job.retry();', { kind: 'retry' }, 'asked for another try'],
    [
      `job.retry({ delay: '10m', priority: 750, name: 'b/c', data: { page: 2 } });`,
      { kind: 'retry', delayMs: 600_000, priority: 750, name: 'b/c', data: '{"page":2}' },
      'asked for another try in 10m as b/c',
    ],
    [`job.retry({ delay: '0s' });`, { kind: 'retry', delayMs: 0 }, 'asked for another try'],
    [
      `job.retry({ runAt: new Date('2036-12-24T18:00:00Z') });`,
      { kind: 'retry', runAt: Date.UTC(2036, 11, 24, 18) },
      'asked for another try at 2036-12-24T18:00:00.000Z',
    ],
    [
      `job.retry({ delay: '5s', failure: 'it answered 429' });`,
      { kind: 'retry', delayMs: 5_000, failure: 'it answered 429' },
      'it answered 429',
      'failed',
    ],
    [`job.fail('no such customer');`, { kind: 'fail', reason: 'no such customer' }, 'no such customer', 'failed'],
    ...(
      [
        ['', 'its handler failed it, and gave no reason'],
        ['null', 'its handler failed it, and gave no reason'],
        ['{ code: 404 }', '{ code: 404 }'],
        [`new RangeError('too far')`, 'too far'],
      ] as const
    ).map(([given, reason]): [string, object, string, string] => [
      `job.fail(${given});`,
      { kind: 'fail', reason },
      reason,
      'failed',
    ]),
    [`job.fail('z'.repeat(20e6));`, { kind: 'fail', reason: 'z'.repeat(8 * 1024) }, 'z'.repeat(8 * 1024), 'failed'],
    [
      `try { job.retry({ delay: '1s' }); } catch {} return 1;`,
      { kind: 'retry', delayMs: 1000 },
      'asked for another try in 1s',
    ],
  ])('%s', async (code, ask, reason, outcome = 'released') => {
    const place = asks(code);
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome, exitCode: null, error: null, reason, ask });
    expect(end).not.toHaveProperty('result');
    expect(place.runner.pid).toBe(place.pids[0]);
  });

  test.each([
    [`job.retry({ delay: 'soon' });`, 'retry() needs a duration such as 10m as delay, found "soon"'],
    [`job.retry({ delay: 10 });`, 'retry() needs a duration such as 10m as delay, found 10'],
    [`job.retry({ runAt: new Date(NaN) });`, 'retry() needs a Date as runAt, found null'],
    [`job.retry({ runAt: 'tomorrow' });`, 'retry() needs a Date as runAt, found "tomorrow"'],
    [`job.retry({ runAt: new Date(), delay: '1s' });`, 'retry() takes a delay or runAt, not both'],
    [`job.retry({ priority: 'high' });`, 'retry() needs a whole number as priority, found "high"'],
    [
      `job.retry({ name: '../x' });`,
      `retry() needs a handler's path such as mail/welcome, 1 to 255 characters as name, found "../x"`,
    ],
    [
      `job.retry({ priority: 1n });`,
      'TypeError: retry(): its argument cannot be written as JSON: Do not know how to serialize a BigInt',
    ],
    [
      `job.retry({ name: 'n'.repeat(${9 * MB}) });`,
      `TypeError: retry(): its argument is ${9 * MB + 11} bytes of JSON, and at most ${MB} are kept`,
    ],
    ...[
      ["'5m'", '"5m"'],
      ['null', 'null'],
      ["{ dely: '5m' }", 'dely'],
    ].map(([given, found]): [string, string] => [
      `job.retry(${given});`,
      `TypeError: retry() takes { delay, runAt, failure, priority, name, data }, found ${found}`,
    ]),
    [
      `job.retry({ data: 1n });`,
      'TypeError: retry(): the data cannot be written as JSON: Do not know how to serialize a BigInt',
    ],
  ])('%s is refused', async (code, reason) => {
    const place = asks(code);
    const end = await place.run('a');
    expect(end).toMatchObject({ outcome: 'failed', reason });
    expect(end).not.toHaveProperty('ask');
    expect(place.pids).toEqual([place.runner.pid]);
  });
});

describe('its progress', () => {
  test('is written in its order, and awaited before the run ends', async () => {
    const place = openPlace({
      'a.mjs': `export default async ({ update, log }) => {
  await update({ done: 1 });
  log('one is written');
  update({ done: 2 });
  update({ done: 3 });
};\n`,
    });
    const written: string[] = [];
    const slowly = async (data: string) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      written.push(data);
    };
    const end = await place.run('a', { onUpdate: slowly });
    expect(end).toMatchObject({ outcome: 'succeeded', output: { text: 'one is written\n' } });
    expect(written).toEqual(['{"done":1}', '{"done":2}', '{"done":3}']);
    // What is said of the last ones reaches it when it has nothing more to do.
    await new Promise((resolve) => setTimeout(resolve, 50));
    await place.run('a');
    expect(new Set(place.pids).size).toBe(1);
  });

  test('that cannot be written is told to who waits for it, and to nobody else', async () => {
    const place = openPlace({
      'a.mjs': `export default async ({ data, update }) => {
  if (data) await update(1);
  else { update(1); update(1n); }
  await new Promise((resolve) => setTimeout(resolve, 30));
};\n`,
    });
    const onUpdate = () => Promise.reject(new Error('the claim has run out'));
    expect(await place.run('a', { data: 0, onUpdate })).toMatchObject({ outcome: 'succeeded' });
    expect(await place.run('a', { data: 1, onUpdate })).toMatchObject({ reason: 'Error: the claim has run out' });
  });

  test('must be JSON', async () => {
    const place = openPlace({ 'a.mjs': `export default ({ update }) => update(undefined);\n` });
    expect((await place.run('a')).reason).toBe(
      'TypeError: update(): the data cannot be written as JSON: it is undefined',
    );
  });
});

describe('what a run has used', () => {
  test('is its own part of what the process has', async () => {
    const place = openOneHandler({
      burn: `export default () => { const end = Date.now() + 150; while (Date.now() < end); };\n`,
      grow: `const kept = [];\nexport default () => { kept.push(Buffer.alloc(${64 * MB}, 1)); };\n`,
      empty: 'export default () => {};\n',
    });
    const burnt = await place.run('burn');
    const grown = await place.run('grow');
    const empty = await place.run('empty');
    expect(new Set(place.pids).size).toBe(1);
    expect(burnt.measuredBy).toBe('self');
    expect(burnt.userCpuMs).toBeGreaterThan(20);
    expect(empty.userCpuMs).toBeLessThan(20);
    expect(grown.rssDeltaBytes).toBeGreaterThan(60 * MB);
    expect(empty.rssDeltaBytes).toBeLessThan(30 * MB);
    expect(empty.maxRssBytes).toBeGreaterThan(64 * MB);
    expect(burnt.durationMs).toBeGreaterThanOrEqual(150);
  });

  test('is nothing that 10,000 jobs in one process add up to', async () => {
    const place = openPlace({ 'a.mjs': `export default ({ data }) => ({ got: data.length });\n` });
    const data = 'x'.repeat(1000);
    const request = await place.request('a', { data });
    const rssAfter = async (jobs: number): Promise<number> => {
      let rss = 0;
      for (let job = 0; job < jobs; job += 1) {
        const end = await runAlone(place.runner, request);
        expect(end.result).toBe('{"got":1000}');
        place.runner.removeFiles(place.state, request.key);
        rss = Number(end.maxRssBytes);
      }
      return rss;
    };
    const before = await rssAfter(3000);
    const { pid } = place.runner;
    expect(await rssAfter(7000)).toBeLessThan(before + 16 * MB);
    expect(place.runner.pid).toBe(pid);
    // On a busy machine they take longer than the usual minute.
  }, 240_000);
});
