import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { commandPath, cronEnv, inRoot, jsonOf, makeQueueSite, withInput } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';

const jobsOf = (root: string) =>
  queryLog<{ id: number; name: string; data: string; priority: number }>(
    root,
    'select id, name, data, priority from jobs order by id',
  );

describe('runner add', () => {
  test('adds a job, makes the log, and says when it is due', async () => {
    const root = makeQueueSite();
    expect(await inRoot(root, 'add', 'mail/welcome', '{"to":"a@example.org"}')).toEqual({
      status: 0,
      stdout: 'Added job 1 (mail/welcome), due now.\n',
      stderr: '',
    });
    expect(jobsOf(root)).toEqual([{ id: 1, name: 'mail/welcome', data: '{"to":"a@example.org"}', priority: 500 }]);
  });

  test('takes options, and prints the number as JSON', async () => {
    const root = makeQueueSite();
    const options = ['--at', '2036-12-24 18:00', '--priority', '-7', '--retries', '3'];
    const more = ['--retry-delay', '5m', '--unique', 'k', '--repeat', 'HOURLY', '--missed', 'once'];
    const last = ['--group', 'shop', '--lease', '10m', '--on-child-failure', 'fail'];
    const added = await inRoot(root, 'add', 'export', ...options, ...more, ...last, '--json');
    expect(added).toEqual({ status: 0, stdout: '{"id":1,"added":true,"changed":false,"ignored":[]}\n', stderr: '' });
    expect(jsonOf(await inRoot(root, 'job', '1', '--json'))).toMatchObject({
      name: 'export',
      data: {},
      runAt: '2036-12-24T18:00:00.000Z',
      priority: -7,
      maxAttempts: 4,
      uniqueKey: 'k',
      repeat: 'HOURLY',
      missed: 'once',
      group: 'shop',
    });
    const [row] = queryLog(root, 'select lease_ms, retry, on_child_failure from jobs');
    expect(row).toEqual({ lease_ms: 600_000, retry: '3 5m', on_child_failure: 'fail' });
  });

  test('tells when a job is due later', async () => {
    const { stdout } = await inRoot(makeQueueSite(), 'add', 'export', '--at', '2036-12-24 18:00');
    expect(stdout).toBe('Added job 1 (export), due 2036-12-24 18:00:00 (UTC).\n');
  });

  test('reads data from stdin, so that it stands in no list of processes', () => {
    const root = makeQueueSite();
    expect(withInput(root, '{"secret":1}\n', 'add', 'export', '-').status).toBe(0);
    expect(jobsOf(root).map(({ data }) => data)).toEqual(['{"secret":1}']);
  });

  test('keeps each number as it is written, also one with more digits than JavaScript has', async () => {
    const root = makeQueueSite();
    const keyed = ['--unique', 'k', '--on-duplicate', 'merge'];
    await inRoot(root, 'add', 'export', '{"id":9007199254740993}', ...keyed);
    await inRoot(root, 'add', 'export', '{"price":1.50,"ids":[-9223372036854775808]}', ...keyed);
    withInput(root, '9007199254740993', 'add', 'export', '-');
    const line = '{"name":"export","data":{"id":9007199254740993},"priority":7.0}\n';
    withInput(root, line, 'add', '--many');
    expect(jobsOf(root)).toMatchObject([
      { data: '{"id":9007199254740993,"price":1.50,"ids":[-9223372036854775808]}' },
      { data: '9007199254740993' },
      { data: '{"id":9007199254740993}', priority: 7 },
    ]);
  });

  test('keeps the order of keys and what stands twice, to where a program reads it', async () => {
    const root = makeQueueSite();
    const data = '{"b":1.0,"10":{"x":[]},"2":"\\u0041","b":-0}';
    const file = 'jobs/queue/export.sh';
    writeFileSync(join(root, file), '#!/bin/sh\njob=$(cat); echo "$job"; echo \'{"z":1,"1":2.0,"z":3}\'\n');
    await inRoot(root, 'add', 'export', `${data.replaceAll(',', ' ,\n')} `);
    withInput(root, `{"data": ${data}, "name": "export"}\n`, 'add', '--many');
    await inRoot(root, 'work');
    const [first, second] = queryLog<{ data: string; result: string; output: string }>(
      root,
      'select data, result, outputs.output from jobs join runs on job_id = jobs.id join outputs on run_id = runs.id',
    );
    expect(second).toMatchObject({ data, result: '{"z":1,"1":2.0,"z":3}' });
    expect(first).toMatchObject({ data, output: expect.stringContaining(`"data":${data}`) });
    const shown = (await inRoot(root, 'job', '1', '--json')).stdout;
    expect(shown.replaceAll(/\n *|(?<=":) /g, '')).toContain(`"data":${data},"result":{"z":1,"1":2.0,"z":3},`);
  });

  test('tells what became of a job whose unique key another has', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export', '{"a":1}', '--unique', 'k');
    const again = async (...args: string[]) =>
      (await inRoot(root, 'add', 'export', '{"b":2}', '--unique', 'k', ...args)).stdout;
    expect(await again()).toBe('Job 1 (export) already has that unique key; nothing was changed.\n');
    expect(await again('--on-duplicate', 'merge')).toBe(
      'Job 1 (export) already has that unique key; the data was merged into its own.\n',
    );
    expect(jobsOf(root)).toMatchObject([{ data: '{"a":1,"b":2}' }]);
    expect(await again('--on-duplicate', 'replace')).toContain('its data was replaced.');
    expect(await again('--on-duplicate', 'replace', '--at', '+1h', '--retry-delay', '5m')).toContain(
      'its data was replaced. Ignored: --at, --retry-delay.',
    );
    expect(await again('--on-duplicate', 'replace-all', '--priority', '7')).toContain('it took what was given.');
    expect(jobsOf(root)).toMatchObject([{ data: '{"b":2}', priority: 7 }]);
    const nothing = await inRoot(root, 'add', 'export', '--unique', 'k', '--on-duplicate', 'replace-all');
    expect(nothing.stdout).toBe('Job 1 (export) already has that unique key; nothing was changed.\n');
    await inRoot(root, 'claim');
    expect(await again('--on-duplicate', 'replace')).toContain(
      'it is running, so nothing was changed. Ignored: the data.',
    );
    expect(await again('--json')).toBe('{"id":1,"added":false,"changed":false,"ignored":["data"]}\n');
    expect(await again('--unique', 'other')).toBe('Added job 2 (export), due now.\n');
  });

  test('knows by no clock whether it was added: that may have been set back', async () => {
    const root = makeQueueSite();
    const queue = await openQueue({ root, now: () => Date.UTC(2036, 11, 24) });
    const id = await queue.add('export', {}, { uniqueKey: 'k' });
    await queue.close();
    expect((await inRoot(root, 'add', 'export', '--unique', 'k')).stdout).toBe(
      `Job ${id} (export) already has that unique key; nothing was changed.\n`,
    );
  });

  test('notes a name that nothing here is for, with the nearest, on stderr', async () => {
    const { status, stdout, stderr } = await inRoot(makeQueueSite(), 'add', 'mail/welcom', '--json');
    expect({ status, stdout }).toEqual({ status: 0, stdout: '{"id":1,"added":true,"changed":false,"ignored":[]}\n' });
    expect(stderr).toBe(
      'Note: jobs/queue/ has no handler for mail/welcom here, so it waits for one; did you mean mail/welcome?\n',
    );
  });

  test('notes nothing of a name that no job got, as another has the unique key', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export', '--unique', 'k');
    for (const more of [[], ['--json']]) {
      const { status, stderr } = await inRoot(root, 'add', 'nowhere', '--unique', 'k', ...more);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    }
  });

  test('a child of what runs waits for it', async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export');
    await inRoot(root, 'claim');
    expect((await inRoot(root, 'add', 'mail/welcome', '--parent', '1')).stdout).toBe(
      'Added job 2 (mail/welcome), waits until job 1 has finished.\n',
    );
  });

  test.each([
    [[], 'runner add needs the name of a job, such as mail/welcome.'],
    [['x', '{secret:1}'], 'The data is not valid JSON (error at character 2)'],
    [['x', '{"secret":'], 'The data is not valid JSON (it ends too early)'],
    [['x', 'secret'], 'The data is not valid JSON (not a JSON value)'],
    [['x', ' '], 'The data is not valid JSON (it is empty)'],
    [['../x'], "A job's name must be"],
    [['x', '--priority', '1.5'], 'A priority must be a whole number such as 500, found "1.5".'],
    [['x', '--at', 'soon'], 'A time must be one such as +10 minutes'],
    [
      ['x', '--at', '2020-01-02T10:00Z'],
      '--at must be a time to come, found "2020-01-02T10:00Z", which is 2020-01-02 ',
    ],
    [['x', '--at', 'yesterday'], '--at must be a time to come, found "yesterday", which is 20'],
    [['x', '--retries', 'many'], 'The number of retries must be a whole number from 0 to 100, found "many".'],
    [['x', '--repeat', 'NEVER EVER'], 'The repeat rule "NEVER EVER" is wrong'],
    [['x', '--missed', 'never'], 'must be one of all, once, skip, found "never".'],
    [['x', '--missed', 'skip'], 'needs a repeat rule.'],
    [['x', '--on-duplicate', 'merge'], 'needs a unique key.'],
    [['x', '--lease', '5'], 'A lease must be a duration'],
    [['x', '--parent', 'one'], 'The parent must be a job\'s number, found "one".'],
    [['x', '--many'], '`npx folder-runner add --many` reads the names from stdin.'],
    [['--many', '--priority', '5'], 'With --many each line has its own options'],
    [['x', '--prioritty', '5'], 'Unknown option --prioritty'],
  ])('%j is wrong use, and adds nothing', (args, message) => {
    const root = makeQueueSite();
    const { status, stdout, stderr } = withInput(root, '', 'add', ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(message);
    expect(stderr).toMatch(/^runner: .*\n$/);
    expect(stderr).not.toContain('secret');
    if (existsSync(join(root, '.runner/activity.db'))) expect(jobsOf(root)).toEqual([]);
  });

  test.each([
    [['export', '-'], 'The data on stdin: expected at most 8 MiB.'],
    [['--many'], 'The jobs on stdin: expected at most 64 MiB.'],
  ])('%j of a stdin without an end is refused', (args, message) => {
    const root = makeQueueSite();
    const words = ['-c', 'exec "$0" "$@" < /dev/zero', process.execPath, commandPath, 'add', ...args];
    const { status, stderr } = spawnSync('sh', words, { cwd: root, env: cronEnv(root), encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 2, stderr: `runner: ${message}\n` });
  });

  test('wrong settings are told a line each', async () => {
    const root = makeQueueSite();
    const settings = { defaults: { timeout: 'soon' }, queue: { lease: 5 } };
    writeFileSync(join(root, 'runner.config.json'), JSON.stringify(settings));
    const { status, stderr } = await inRoot(root, 'add', 'export');
    expect(status).toBe(2);
    expect(stderr).toMatch(
      /^runner: runner\.config\.json:1: defaults\.timeout .*\nrunner\.config\.json:1: queue\.lease .*\n$/,
    );
  });

  test('what is not possible as things stand exits 1', async () => {
    const root = makeQueueSite();
    expect(await inRoot(root, 'add', 'export', '--parent', '9')).toEqual({
      status: 1,
      stdout: '',
      stderr: 'runner: There is no parent job 9; `npx folder-runner jobs` lists all jobs.\n',
    });
  });

  test('a name cannot write to the terminal', async () => {
    const { stderr } = await inRoot(makeQueueSite(), 'add', 'a\u001b[2J\u009bb\u202e');
    expect(stderr).toMatch(/^runner: A job's name must be/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
    expect(stderr).not.toMatch(/[\u001b\u009b\u202e]/);
  });
});

describe('runner add --many', () => {
  const line = (job: object): string => `${JSON.stringify(job)}\n`;

  test('adds the jobs of stdin in their order', () => {
    const root = makeQueueSite();
    const input = `${line({ name: 'export' })}\n${line({ name: 'mail/welcome', data: [1], priority: 9 })}`;
    expect(withInput(root, input, 'add', '--many')).toEqual({
      status: 0,
      stdout: 'Added 2 jobs: 1 to 2.\n',
      stderr: '',
    });
    expect(jobsOf(root)).toEqual([
      { id: 1, name: 'export', data: '{}', priority: 500 },
      { id: 2, name: 'mail/welcome', data: '[1]', priority: 9 },
    ]);
    const json = withInput(root, line({ name: 'export' }), 'add', '--many', '--json');
    expect(json.stdout).toBe('{"ids":[3],"kept":[],"changed":[],"ignored":[]}\n');
  });

  test('takes null for an option that is left out; data may be null', () => {
    const root = makeQueueSite();
    const keys = ['runAt', 'priority', 'retries', 'retryDelay', 'uniqueKey', 'onDuplicate', 'repeat', 'missed'];
    const others = ['parent', 'onChildFailure', 'group', 'lease', 'data'];
    const unsaid = Object.fromEntries([...keys, ...others].map((key) => [key, null]));
    const input = line({ name: 'export', ...unsaid });
    expect(withInput(root, input, 'add', '--many').stderr).toBe('');
    expect(jobsOf(root)).toEqual([{ id: 1, name: 'export', data: 'null', priority: 500 }]);
    const nameless = withInput(root, line({ name: null }), 'add', '--many');
    expect([nameless.status, nameless.stderr]).toEqual([2, expect.stringContaining("A job's name must be")]);
  });

  test('tells how many were not added, as another has the unique key', () => {
    const root = makeQueueSite();
    const keyed = line({ name: 'export', uniqueKey: 'k' });
    const add = (input: string, ...args: string[]) => withInput(root, input, 'add', '--many', ...args).stdout;
    expect(add(keyed + line({ name: 'export' }) + keyed)).toBe(
      'Added 2 jobs: 1 to 2. 1 line added none: the unique key was taken.\n',
    );
    expect(add(keyed)).toBe('Added no job. 1 line added none: the unique key was taken.\n');
    expect(add(keyed + line({ name: 'export' }), '--json')).toBe(
      '{"ids":[1,3],"kept":[1],"changed":[],"ignored":[]}\n',
    );
  });

  test.each([
    ['{"name":"mail/welcome","priority":"x"}', /^runner: Line 3 \("mail\/welcome"\): A priority must be/],
    ['{"name":', /^runner: Line 3 is not valid JSON/],
    ['[]', /^runner: Line 3 must be an object such as {"name":"mail\/welcome","data":{}}\./],
    ['null', /^runner: Line 3 must be an object/],
    ['{"name":"a","prioriti":1}', /^runner: Line 3: "prioriti" is not a key of a job; did you mean priority\?/],
    ['{"name":"a","zzzzzzz":1}', /^runner: Line 3: "zzzzzzz" is not a key of a job; a job has name, data/],
  ])('adds none where one is wrong, and names its line: %s', (wrong, message) => {
    const root = makeQueueSite();
    const { status, stderr } = withInput(root, `${line({ name: 'export' })}\r\n${wrong}\n`, 'add', '--many');
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
    expect(existsSync(join(root, '.runner/activity.db')) ? jobsOf(root) : []).toEqual([]);
  });

  test('an empty stdin is no mistake', () => {
    const root = makeQueueSite();
    expect(withInput(root, '\n', 'add', '--many')).toMatchObject({
      status: 0,
      stdout: 'Added no job: stdin was empty.\n',
    });
    expect(withInput(root, '', 'add', '--many', '--json').stdout).toBe(
      '{"ids":[],"kept":[],"changed":[],"ignored":[]}\n',
    );
  });

  test('notes each name that nothing here is for once', () => {
    const input = line({ name: 'a' }) + line({ name: 'a' }) + line({ name: 'b' });
    const { stderr } = withInput(makeQueueSite(), input, 'add', '--many');
    expect(stderr.match(/^Note: .*$/gm)).toHaveLength(2);
  });
});
