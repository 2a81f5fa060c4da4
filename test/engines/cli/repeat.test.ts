import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cronPlace, inRoot, runCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** It needs no root: a rule can be tried before there is one. */
const repeat = (...args: readonly string[]) => inRoot(emptyFolder(), 'repeat', ...args);

function emptyFolder(): string {
  const folder = makeTemporaryRoot();
  rmSync(join(folder, 'jobs'), { recursive: true });
  return folder;
}

async function json(...args: readonly string[]) {
  const { status, stdout, stderr } = await repeat(...args, '--json');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return JSON.parse(stdout) as Record<string, unknown> & { next: string[] };
}

const moments = [
  '--scheduled',
  '2026-03-10 13:00:00',
  '--started',
  '2026-03-10 13:15:00',
  '--finished',
  '2026-03-10 13:45:00',
];

describe('runner repeat', () => {
  test('explains a rule and shows its next five times', async () => {
    expect(await repeat('scheduled, +1 hour', ...moments)).toEqual({
      status: 0,
      stdout: `SCHEDULED, +1 HOUR
Runs again 1 hour after the time for which it was scheduled.

2026-03-10 14:00:00 UTC
2026-03-10 15:00:00 UTC
2026-03-10 16:00:00 UTC
2026-03-10 17:00:00 UTC
2026-03-10 18:00:00 UTC
`,
      stderr: '',
    });
  });

  test('shows the times by the clock of the rule, too', async () => {
    const { stdout } = await repeat(
      'daily at 02:30 in Europe/Berlin',
      '--finished',
      '2026-03-28 12:00',
      '--count',
      '2',
    );
    expect(stdout).toBe(`daily at 02:30 in Europe/Berlin
Runs every day at 02:30 in Europe/Berlin.

2026-03-29 01:00:00 UTC  2026-03-29 03:00:00 Europe/Berlin
2026-03-30 00:30:00 UTC  2026-03-30 02:30:00 Europe/Berlin
`);
  });

  test('begins now if no moments are given', async () => {
    const before = Math.floor(Date.now() / 1000) * 1000;
    const { next } = await json('HOURLY', '--count', '1');
    const first = Date.parse(`${next[0]?.replace(' ', 'T')}Z`) - 3_600_000;
    expect(first).toBeGreaterThanOrEqual(before);
    expect(first).toBeLessThanOrEqual(Date.now());
  });

  test('takes a moment that is not given to be as the others', async () => {
    const only = ['--scheduled', '2026-03-10'];
    expect((await json('FINISHED, +1 HOUR', ...only)).next[0]).toBe('2026-03-10 01:00:00');
    expect((await json('SCHEDULED, +1 HOUR', '--finished', '2026-03-10')).next[0]).toBe('2026-03-10 01:00:00');
  });

  test('reads the dates of a file in the root', async () => {
    const root = makeTemporaryRoot({ 'holidays.txt': '2026-12-24 to 2026-12-26\n' });
    const rule = 'daily at 02:30 except holidays.txt between 22:00 and 05:00 in Europe/Berlin';
    const { stdout } = await inRoot(root, 'repeat', rule, '--finished', '2026-12-23', '--count', '2');
    expect(stdout).toBe(`${rule}
Runs every day at 02:30 in Europe/Berlin, but not on the dates in holidays.txt, and only between 22:00 and 05:00: any other time comes at 22:00.

2026-12-23 01:30:00 UTC  2026-12-23 02:30:00 Europe/Berlin
2026-12-27 01:30:00 UTC  2026-12-27 02:30:00 Europe/Berlin
`);
    for (const args of [['repeat', '--script'], ['repeat']]) {
      const what = args.includes('--script') ? 'schedule' : 'repeat rule';
      expect(await inRoot(root, ...args, 'daily at 02:30 except none.txt')).toEqual({
        status: 2,
        stdout: '',
        stderr: `runner: The ${what} "daily at 02:30 except none.txt" is wrong: none.txt does not exist in ${root}: write it with a date such as 2026-12-25 in each line.\n`,
      });
    }
    expect(runCommand(['repeat', 'daily at 02:30 except days.txt'], cronPlace(emptyFolder())).stderr).toContain(
      'days.txt is a path from the root, and there is no root here.',
    );
  });

  test('shows local times if they decide when a job runs that counts from its end', async () => {
    const rule = 'every 2 hours between 22:00 and 05:00 in Asia/Tokyo';
    expect(await json(rule, '--finished', '2026-03-10 07:00', '--count', '2')).toMatchObject({
      next: ['2026-03-10 13:00:00', '2026-03-10 15:00:00'],
      zone: 'Asia/Tokyo',
      local: ['2026-03-10 22:00:00', '2026-03-11 00:00:00'],
    });
  });

  test('tells when a job would run that missed some', async () => {
    const args = ['--scheduled', '2026-03-10 09:17', '--finished', '2026-03-10 13:45', '--count', '2'];
    expect((await repeat('SCHEDULED, +1 HOUR', ...args, '--missed', 'once')).stdout).toMatch(
      /\n\n2026-03-10 13:45:00 UTC {2}for 2026-03-10 13:17:00, 3 skipped\n2026-03-10 14:17:00 UTC {2}for 2026-03-10 14:17:00\n$/,
    );
    expect(await json('SCHEDULED, +1 HOUR', ...args, '--missed', 'once')).toMatchObject({
      missed: 'once',
      next: ['2026-03-10 13:45:00', '2026-03-10 14:17:00'],
      plan: [
        { runAt: '2026-03-10 13:45:00', scheduledFor: '2026-03-10 13:17:00', skipped: 3 },
        { runAt: '2026-03-10 14:17:00', scheduledFor: '2026-03-10 14:17:00', skipped: 0 },
      ],
    });
    expect((await json('SCHEDULED, +1 HOUR', ...args, '--missed', 'all')).next).toEqual([
      '2026-03-10 10:17:00',
      '2026-03-10 11:17:00',
    ]);
    expect((await json('SCHEDULED, +1 HOUR', ...args, '--missed', 'skip')).next).toEqual([
      '2026-03-10 14:17:00',
      '2026-03-10 15:17:00',
    ]);
  });

  test.each(['FINISHED, +0 SECONDS', 'SCHEDULED, START OF DAY, +4 HOURS'])(
    'warns of %s, which does not get ahead',
    async (rule) => {
      expect((await repeat(rule, ...moments)).stdout).toMatch(
        /\n\nIt never moves forward: a job would wait 1 second and run again\.\n$/,
      );
      expect((await json(rule, ...moments, '--missed', 'skip', '--count', '2')).next).toEqual([
        '2026-03-10 13:45:01',
        '2026-03-10 13:45:02',
      ]);
    },
  );

  test('says so where there is no time', async () => {
    const args = ['FINISHED, +999 YEARS', '--finished', '9900-01-01'];
    expect((await repeat(...args)).stdout).toMatch(/\n\nIt gives no time before the year 10000\.\n$/);
    expect((await json(...args)).next).toEqual([]);
  });
});

describe('as JSON', () => {
  test('a rule has exactly these keys', async () => {
    expect(await json('FINISHED, +1 DAY, START OF DAY, +4 HOURS', ...moments, '--count', '2')).toEqual({
      valid: true,
      rule: 'FINISHED, +1 DAY, START OF DAY, +4 HOURS',
      explanation:
        'Runs again at a time counted in UTC from the time at which it finished: 1 day later, then back to the beginning of the day, then 4 hours later.',
      next: ['2026-03-11 04:00:00', '2026-03-12 04:00:00'],
    });
  });

  test('a rule of the calendar tells its zone and the times there', async () => {
    expect(await json('weekly on monday at 01:00 in Europe/Berlin', ...moments, '--count', '1')).toEqual({
      valid: true,
      rule: 'weekly on monday at 01:00 in Europe/Berlin',
      explanation: 'Runs every Monday at 01:00 in Europe/Berlin.',
      next: ['2026-03-16 00:00:00'],
      zone: 'Europe/Berlin',
      local: ['2026-03-16 01:00:00'],
    });
    expect(await json('daily at 01:00', ...moments, '--count', '1')).toMatchObject({ zone: 'UTC' });
  });

  test('a wrong rule is told on stdout, too', async () => {
    const problem =
      'The repeat rule "FINISHED, 1 HOUR" is wrong: its modifier 1, "1 HOUR", lacks its sign: begin it with + or -.';
    const { status, stdout, stderr } = await repeat('FINISHED, 1 HOUR', '--json');
    expect({ status, stderr }).toEqual({ status: 2, stderr: `runner: ${problem}\n` });
    expect(JSON.parse(stdout)).toEqual({ valid: false, problem });
  });
});

describe('wrong use exits 2:', () => {
  test.each([
    [['blabla'], /^runner: The repeat rule "blabla" is wrong: it begins with "blabla", but .+\.\n$/],
    [['HOURLY', '--count', '0'], /^runner: --count must be a whole number from 1 to 1000, found "0"\.\n$/],
    [['HOURLY', '--count', '1001'], /^runner: --count must be a whole number from 1 to 1000/],
    [
      ['HOURLY', '--started', 'now'],
      /^runner: --started must be a time in UTC such as 2026-03-10 or "2026-03-10 13:00:00", found "now"\.\n$/,
    ],
    [['HOURLY', '--missed', 'some'], /^runner: --missed must be one of all, once, skip, found "some"\.\n$/],
    [['FINISHED,', '+1', 'HOUR'], /^runner: Too many arguments: expected 1, found 3/],
    [[], /^runner: Missing <rule>/],
  ])('%j', async (args, complaint) => {
    const { status, stdout, stderr } = await repeat(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(complaint);
  });
});

test('the help says in which zone times are, and has examples', async () => {
  const { status, stdout } = await repeat('--help');
  expect(status).toBe(0);
  expect(stdout).toContain('in UTC unless');
  expect(stdout).toMatch(/^Examples:\n {2}runner repeat 'SCHEDULED, \+1 HOUR'$/m);
});
