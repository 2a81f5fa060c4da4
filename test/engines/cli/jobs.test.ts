import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { callCommand, cronEnv, inRoot, jsonOf, makeQueueSite, withInput } from '../../support/command.ts';

/** Jobs 1 to 5: one runs, one failed, one is to come, one repeats. */
async function fillQueue(): Promise<string> {
  const root = makeQueueSite();
  const lines = [
    { name: 'mail/welcome', priority: 900 },
    { name: 'mail/welcome', priority: 800 },
    { name: 'mail/bye', runAt: '2036-01-01 00:00' },
    { name: 'export', runAt: '2036-01-01 01:00', repeat: 'SCHEDULED, +1 HOUR' },
    { name: 'export' },
  ];
  withInput(root, lines.map((line) => JSON.stringify(line)).join('\n'), 'add', '--many');
  await inRoot(root, 'claim', 'mail/*');
  await inRoot(root, 'job', '1', 'fail', '--reason', 'no such\u001b[31m address');
  await inRoot(root, 'claim', 'mail/*');
  return root;
}

const idsOf = async (root: string, ...args: string[]): Promise<number[]> =>
  jsonOf(await inRoot(root, 'jobs', ...args, '--json')).jobs.map(({ id }: { id: number }) => id);

/** Which jobs of those above these arguments list. */
const named: readonly (readonly [args: readonly string[], ids: readonly number[]])[] = [
  [[], [5, 4, 3, 2, 1]],
  [['mail/*'], [3, 2, 1]],
  [['mail/welcome'], [2, 1]],
  [['MAIL/*'], []],
  [['--state', 'failed'], [1]],
  [
    ['--state', 'failed,running'],
    [2, 1],
  ],
  [['--state', 'ready'], [5]],
  [
    ['--state', 'delayed'],
    [4, 3],
  ],
  [
    ['export', '--state', 'queued'],
    [5, 4],
  ],
  [
    ['--limit', '2'],
    [5, 4],
  ],
  [['--order', 'kick'], [1]],
  [['--order', 'kick', 'mail/b*'], [3]],
  [
    ['--order', 'oldest', '--state', 'queued'],
    [3, 4, 5],
  ],
  [
    ['--order', 'oldest', '--since', '1h', '--after', '1', '--limit', '2'],
    [2, 3],
  ],
  [['--until', '1h'], []],
  [['--before', '2'], [1]],
];

const wrongUse: readonly (readonly [args: readonly string[], message: string])[] = [
  [['--state', 'faild'], 'found "faild"; did you mean failed?'],
  [['--order', 'eldest'], 'The order must be one of newest, oldest, next, soonest, kick, found "eldest".'],
  [
    ['--order', 'kick', '--state', 'failed'],
    'The order kick must be used with pattern and limit alone, found "state".',
  ],
  [['--since', 'someday'], '--since must be a duration back from now such as 7d'],
  [['--since', '1d', '--until', '2d'], '--since 1d is not before --until 2d'],
  [['--after', 'x'], 'A job\'s number must be a whole number above 0, found "x".'],
  [['--count', '--since', '1d'], '--count and --since cannot be combined'],
  [['--limit', '0'], '--limit must be a whole number from 1'],
  [['--upcoming', 'all'], '--upcoming must be a whole number from 1 to 1000, found "all".'],
  [['--upcoming', '3', '--count'], '--upcoming and --count cannot be combined'],
  [[''], 'A pattern must be'],
];

const me = userInfo().username;

describe('runner jobs', () => {
  test('lists the newest first, with state, time, tries and reason', async () => {
    const { status, stdout, stderr } = await inRoot(await fillQueue(), 'jobs');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    // Columns are as wide as what is in them, and a day has one digit or two.
    const known = stdout.replaceAll(/\d+ [A-Z][a-z]{2} \d\d:\d\d/g, '#').replaceAll(/(?<=\S) {2,}/g, '  ');
    const lines = known.split('\n');
    expect(lines).toEqual([
      'job  name  state  when  tries  why',
      '  5  export  queued  due now  0',
      '  4  export  queued  due 2036-01-01  0',
      '  3  mail/bye  queued  due 2036-01-01  0',
      '  2  mail/welcome  running  since #  1',
      '  1  mail/welcome  failed  #  1  no such address',
      '',
      'times in UTC',
      '',
    ]);
  });

  test('shows what waits in the order in which it is taken, or by its time', async () => {
    const root = await fillQueue();
    await inRoot(root, 'add', 'late', '--at', '2036-01-02', '--priority', '999');
    expect(await idsOf(root, '--order', 'newest')).toEqual([6, 5, 4, 3, 2, 1]);
    expect(await idsOf(root, '--order', 'next')).toEqual([6, 5, 3, 4]);
    expect(await idsOf(root, '--order', 'soonest')).toEqual([5, 3, 4, 6]);
    expect(await idsOf(root, '--order', 'next', '--state', 'ready', '--limit', '1')).toEqual([5]);
    expect((await inRoot(root, 'jobs', '--order', 'next', '--limit', '2')).stdout).toContain('shows more');
    expect((await inRoot(root, 'jobs', '--order', 'next', '--limit', '4')).stdout).not.toContain('shows');
  });

  test('tells what waits because of a pause, or of one that lets it fail, and what ends that', async () => {
    const root = await fillQueue();
    await inRoot(root, 'pause', 'mail/*', '--fail');
    await inRoot(root, 'pause', 'mail/b*');
    await inRoot(root, 'pause', 'export', '--fail');
    await inRoot(root, 'pause', 'import/*');
    await inRoot(root, 'pause', 'hourly');
    // Wide enough for any user's name in a line.
    const env = { ...cronEnv(root), TZ: 'UTC', COLUMNS: '200' };
    const { stdout } = await callCommand(['jobs'], { cwd: root, env });
    expect(stdout.split('\n').map((line) => line.trimEnd())).toEqual([
      'job  name          state    when                       tries  why',
      '  5  export        queued   due now, will fail             0',
      '  4  export        queued   due 2036-01-01, will fail      0',
      '  3  mail/bye      queued   due 2036-01-01, paused         0',
      expect.stringMatching(/^ {2}2 {2}mail\/welcome {2}running {2}since \d+ [A-Z][a-z]{2} \d\d:\d\d +1$/),
      expect.stringMatching(/^ {2}1 {2}mail\/welcome {2}failed .* no such address$/),
      '',
      'paused',
      `  export · fails when it is due · until resumed · by ${me} · \`npx folder-runner resume export\` ends it`,
      `  mail/b* · until resumed · by ${me} · \`npx folder-runner resume 'mail/b*'\` ends it`,
      '',
      'times in UTC',
      '',
    ]);
    const { jobs } = jsonOf(await inRoot(root, 'jobs', '--json'));
    const pauses = jobs.map(({ pause }: { pause: object | null }) => pause);
    const failFast = { name: 'queue/export', kind: 'fail-fast', until: null, since: expect.any(String), by: me };
    expect(pauses).toEqual([failFast, failFast, { ...failFast, name: 'queue/mail/b*', kind: 'pause' }, null, null]);
  });

  test('lists those that its pattern and options name', async () => {
    const root = await fillQueue();
    for (const [args, ids] of named) expect.soft(await idsOf(root, ...args), args.join(' ')).toEqual(ids);
  });

  test('says when there are more, and where there are none', async () => {
    const root = await fillQueue();
    expect((await inRoot(root, 'jobs', '--limit', '2')).stdout).toMatch(
      /\nthe first 2 jobs; --limit shows more · times in UTC\n$/,
    );
    expect((await inRoot(root, 'jobs', '--limit', '5')).stdout).not.toContain('shows more');
    expect((await inRoot(root, 'jobs', 'nothing')).stdout).toBe('No jobs found in the queue.\n');
    expect((await inRoot(makeQueueSite(), 'jobs')).stdout).toBe('No jobs found in the queue.\n');
  });

  test('hands out more than the queue does at once', async () => {
    const root = makeQueueSite();
    withInput(root, '{"name":"export"}\n'.repeat(2_500), 'add', '--many');
    const { stdout } = await inRoot(root, 'jobs', '--limit', '2400');
    const ids = [...stdout.matchAll(/^ *(\d+) {2}export/gm)].map(([, id]) => Number(id));
    expect(ids).toEqual(Array.from({ length: 2_400 }, (_, index) => 2_500 - index));
    const oldest = await idsOf(root, '--order', 'oldest', '--after', '50', '--limit', '2400');
    expect(oldest).toEqual(Array.from({ length: 2_400 }, (_, index) => 51 + index));
  });

  test('knows nothing of the jobs of scripts', async () => {
    const root = await fillQueue();
    expect((await inRoot(root, 'hourly')).status).toBe(0);
    expect(await idsOf(root)).toEqual([5, 4, 3, 2, 1]);
  });

  test('counts each name by states', async () => {
    const root = await fillQueue();
    expect((await inRoot(root, 'jobs', '--count')).stdout.split('\n').slice(0, 5)).toEqual([
      'name          ready  delayed  running  retrying  paused  failed  finished  cancelled',
      'export            1        1        0         0       0       0         0          0',
      'mail/bye          0        1        0         0       0       0         0          0',
      'mail/welcome      0        0        1         0       0       1         0          0',
      '3 names           1        2        1         0       0       1         0          0',
    ]);
    expect(jsonOf(await inRoot(root, 'jobs', 'mail/w*', '--count', '--json'))).toEqual({
      counts: [
        {
          ...{ name: 'mail/welcome', ready: 0, delayed: 0, running: 1, retrying: 0, paused: 0 },
          ...{ failed: 1, finished: 0, cancelled: 0 },
        },
      ],
    });
  });

  test('tells the next times, also those that a rule will give', async () => {
    const root = await fillQueue();
    const { upcoming } = jsonOf(await inRoot(root, 'jobs', '--upcoming', '5', '--json'));
    expect(upcoming.map(({ id }: { id: number }) => id)).toEqual([5, 3, 4, 4, 4]);
    expect(upcoming.slice(2)).toEqual(
      ['01', '02', '03'].map((hour, index) => ({
        at: `2036-01-01T${hour}:00:00.000Z`,
        isExpected: index > 0,
        id: 4,
        name: 'export',
        state: 'queued',
        repeat: 'SCHEDULED, +1 HOUR',
      })),
    );
    const { stdout } = await inRoot(root, 'jobs', 'export', '--upcoming', '3');
    expect(stdout).toContain('\n~2036-01-01 02:00:00');
    expect(stdout).toContain('~ if the runs before it take no time · times in UTC\n');
    expect((await inRoot(root, 'jobs', 'nothing', '--upcoming', '3')).stdout).toBe('No job is waiting or repeating.\n');
  });

  test('refuses wrong use', async () => {
    const root = await fillQueue();
    for (const [args, message] of wrongUse) {
      const { status, stdout, stderr } = await inRoot(root, 'jobs', ...args);
      expect.soft({ status, stdout }, args.join(' ')).toEqual({ status: 2, stdout: '' });
      expect.soft(stderr).toContain(message);
    }
  });

  test('where nothing has ever run there is none, and none is made', async () => {
    const root = makeQueueSite();
    const empty = { jobs: [], counts: [], upcoming: [] };
    for (const [key, args] of [
      ['jobs', []],
      ['counts', ['--count']],
      ['upcoming', ['--upcoming', '3']],
    ] as const) {
      expect(jsonOf(await inRoot(root, 'jobs', ...args, '--json'))).toEqual({ [key]: empty[key] });
    }
    expect(existsSync(join(root, '.runner'))).toBe(false);
  });
});

test('`kick` takes the failed jobs that its filters choose, and tells beforehand how many and why', async () => {
  const root = await fillQueue();
  const dry = await inRoot(root, 'kick', 'mail/*', '--since', 'today', '--dry-run');
  expect(dry).toEqual({
    stdout: 'A kick would queue 1 job:\n  1  no such address\n',
    stderr: '',
    status: 0,
  });
  expect(jsonOf(await inRoot(root, 'kick', '*', '--search', 'SUCH', '--dry-run', '--json'))).toMatchObject({
    jobs: 1,
    refused: 0,
    last: 1,
  });
  expect((await inRoot(root, 'kick', 'export', '--dry-run')).stdout).toBe(
    'A kick would queue 1 job:\n  1  no reason is known\n',
  );
  expect((await inRoot(root, 'kick', 'mail/*', '--search', 'nobody')).stdout).toBe('Kicked 0 jobs.\n');
  expect((await inRoot(root, 'kick', 'mail/*', '--until', '1h')).stdout).toBe('Kicked 0 jobs.\n');
  expect((await inRoot(root, 'kick', 'mail/*', '--search', 'such')).stdout).toBe('Kicked 1 job.\n');
  expect(await inRoot(root, 'kick', '*', '--since', 'someday')).toMatchObject({ status: 2 });
  expect(await inRoot(root, 'kick', '*', '--count', '1', '--dry-run')).toMatchObject({ status: 2 });
});
