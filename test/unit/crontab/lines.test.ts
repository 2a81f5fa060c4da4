import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type LinesRequest, planLines } from '../../../src/hosting/crontab/lines.ts';
import {
  crontabWord,
  readCrontabWord,
  readOldLine,
  readOwnLine,
  writeOwnLine,
} from '../../../src/hosting/crontab/own-line.ts';
import { dueCall, tierCalls, workCall } from '../../../src/hosting/crontab/plan.ts';
import { type CronPeriod, chooseMinutes, parseCronPeriod, type TimedCall } from '../../../src/hosting/crontab/times.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { tries } from '../../support/tries.ts';

const SCRIPT = '~/.folder-runner/cron';

const request = (tiers: readonly string[], more: Partial<LinesRequest> = {}): LinesRequest => ({
  root: '/home/me',
  script: SCRIPT,
  calls: tierCalls(tiers),
  ...more,
});

const crontabLines = (asked: LinesRequest) => planLines(asked).lines;

const command = (tier: string): string => `sh ~/.folder-runner/cron ${tier} /home/me`;

const timesOf = (line: string): string => line.split(' ').slice(0, 5).join(' ');

const lineOf = (tier: string, more: Partial<LinesRequest> = {}): string => crontabLines(request([tier], more))[0] ?? '';

test('each tier has a line, the most frequent first', () => {
  const lines = crontabLines(request(['daily', '15min', 'hourly']));
  expect(lines).toEqual([
    expect.stringMatching(/^(\d|1[0-4])-59\/15 \* \* \* \* /),
    expect.stringMatching(/^\d+ \* \* \* \* /),
    expect.stringMatching(/^\d+ [45] \* \* \* /),
  ]);
  const commands = ['15min', 'hourly', 'daily'].map((tier) => expect.stringMatching(new RegExp(` ${command(tier)}$`)));
  expect(lines).toEqual(commands);
});

test.each([
  ['1min', /^\* \* \* \* \*$/],
  ['5min', /^[0-4]-59\/5 \* \* \* \*$/],
  ['60min', /^\d+ \* \* \* \*$/],
  ['2hours', /^\d+ [01]-23\/2 \* \* \*$/],
  ['12hours', /^\d+ (\d|1[01])-23\/12 \* \* \*$/],
  ['weekly', /^\d+ [45] \* \* [0-6]$/],
  ['monthly', /^\d+ [45] ([1-9]|1\d|2[0-8]) \* \*$/],
  ['yearly', /^\d+ [45] ([1-9]|1\d|2[0-8]) ([1-9]|1[0-2]) \*$/],
])('%s runs at %s', (tier, times) => {
  for (const root of ['/home/a', '/home/b', '/home/c', '/home/d']) {
    const line = lineOf(tier, { root });
    expect(timesOf(line)).toMatch(times);
  }
});

test('the line of a worker stands last, changes no other, and shares no minute with one', () => {
  const tiers = ['15min', 'hourly', 'daily'];
  const lines = crontabLines(request(tiers));
  const calls = [...tierCalls(tiers), workCall(15)];
  const withWork = crontabLines(request(tiers, { calls }));
  expect(withWork.slice(0, 3)).toEqual(lines);
  const from = (line = ''): number => Number(/^\d+/.exec(line)?.[0]) % 15;
  expect(withWork.slice(0, 3).map(from)).not.toContain(from(withWork[3]));
});

test('each line of a root of 20 characters fits into 80 columns', () => {
  const tiers = ['1min', '15min', '45min', 'hourly', '12hours', 'daily', '30days', 'weekly', 'monthly', 'yearly'];
  const works = [1, 2, 5, 15, 60].map(workCall);
  for (const root of ['/home/me/sites/shop1', '/home/customer1/site', '/var/www/shop/runner']) {
    const all = [
      ...tierCalls(tiers),
      dueCall(['12hours'], ['--budget', '55s']),
      dueCall(['15min'], ['--budget', '14m']),
    ];
    for (const calls of [...all, ...works].map((call) => [call])) {
      const [line = ''] = crontabLines(request([], { root, calls }));
      expect(line.length, line).toBeLessThanOrEqual(80);
    }
  }
});

const OLD_START =
  'for p in /n/node /p/dist/bin.cjs /home/me/jobs; do [ -e "$p" ] || { case $(date -R) in *" 00:"0?:*) echo "folder-runner: ' +
  'hourly is not run, as $p is missing. Put it back, or remove this line with crontab -e.";; esac; exit; }; done; ';
const OLD_COUNT = '[ $(( ($(date +\\%s) + 26820) / 86400 \\% 3 )) -ne 0 ] && exit; ';

test.each([
  ['hourly', OLD_START, '57 * * * *', ''],
  ['3days', `${OLD_COUNT}${OLD_START}`, '33 4 * * *', ''],
  ['work', OLD_START, '* * * * *', ' --for 55s'],
])('a long line of an earlier version for %s becomes a short one with its times', (name, start, times, args) => {
  const old = `${times} ${start}/n/node /p/dist/bin.cjs --root /home/me ${name}${args}`;
  expect(readOldLine(old)).toMatchObject({ times, before: '', name, root: '/home/me', after: '' });
  const calls = name === 'work' ? [workCall(1)] : tierCalls([name]);
  const planned = planLines(request([], { calls, installed: [old.replace(' for p', ' nice -n 19 for p')] }));
  expect(planned.dropped).toEqual([]);
  expect(planLines(request([], { calls, installed: [old] })).lines).toEqual([`${times} ${command(name)}${args}`]);
});

test('what somebody has added to the block stays, around the lines and in them', () => {
  const by = { installed: [] as string[] };
  const [hourly = '', daily = ''] = crontabLines(request(['hourly', 'daily']));
  by.installed = [
    'MAILTO=me',
    hourly.replace(' sh ', ' nice -n 19 sh '),
    '# mine',
    `${daily} >>log 2>&1`,
    '@daily other',
  ];
  expect(planLines(request(['hourly', 'daily'], by))).toEqual({ lines: by.installed, dropped: [] });
  const { lines, dropped } = planLines(request(['15min', 'daily'], by));
  expect(lines).toEqual(['MAILTO=me', '# mine', expect.stringMatching(/ 15min /), ...by.installed.slice(3)]);
  expect(dropped).toEqual([by.installed[1]]);
});

test('a line is read as it was written, whatever its root is called', () => {
  const line = { times: '57 * * * *', before: '', script: SCRIPT, after: '' };
  const root = fc.string({ unit: fc.constantFrom(...`a B/'"%$*?~#&|;<>()!{}[]=é€`), minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(root, fc.constantFrom([], ['--for', '55s'], ['--budget', '1 hour'], ['mail/*']), (each, args) => {
      const own = { ...line, name: 'work', root: `/${each}`, args };
      expect(readOwnLine(writeOwnLine(own))).toEqual(own);
      expect(readCrontabWord(crontabWord(each))).toBe(each);
    }),
  );
});

test.each([
  '5 * * * * cd $SITE && ./bin/cleanup sh ~/.folder-runner/cron hourly /home/me',
  '5 * * * * echo sh ~/.folder-runner/cron hourly /home/me',
  '5 * * * * sh ~/.folder-runner/crontab hourly /home/me',
  '5 * * * * bash-sh ~/.folder-runner/cron hourly /home/me',
  '5 * * * * sh ~/.folder-runner/cron hourly',
  '# 5 * * * * sh ~/.folder-runner/cron hourly /home/me',
])('%s does not call the script', (line) => {
  expect(readOwnLine(line)).toBeNull();
});

/** As cron does: the first bare `%` ends the command, `\%` is a `%`. */
const commandCronRuns = (command: string): string => (command.split(/(?<!\\)%/)[0] ?? '').replaceAll('\\%', '%');

const wordTheShellGets = (word: string): string => {
  const command = commandCronRuns(`printf %s ${word}`.replace('%s', '\\%s'));
  return spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8' }).stdout;
};

test.each([
  ['/home/me/site-1/dist/bin.cjs', '/home/me/site-1/dist/bin.cjs'],
  ['/home/me/my site', "'/home/me/my site'"],
  ["/home/me/it's", "'/home/me/it'\\''s'"],
  ['/home/me/100%', "'/home/me/100\\%'"],
  ['/home/me/$HOME;rm', "'/home/me/$HOME;rm'"],
  ['/home/mé', "'/home/mé'"],
])('%s is written as %s', (path, word) => {
  expect(crontabWord(path)).toBe(word);
});

test('whatever a path holds, the command gets it unchanged through cron and the shell', () => {
  const character = fc.constantFrom(...`a B/'"%$\`*?~#&|;<>()!{}[]=é€\t\\`.replace('\t', ''));
  const path = fc.string({ unit: character, minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(
      path.filter((each) => !/\\[\\%]/.test(each)),
      (each) => {
        expect(wordTheShellGets(crontabWord(each))).toBe(each);
      },
    ),
    { numRuns: tries(60) },
  );
});

test.each(['/home/a\nb', '/home/a\rb', '/home/a\0b', '/home/a\u001bb'])(
  '%j cannot be in a crontab line and is refused in a sentence',
  (path) => {
    expect(() => crontabWord(path)).toThrow(UsageError);
    expect(() => crontabWord(path)).toThrow(/control character.*rename the folder\.$/);
  },
);

test.each(['/home/a\\\\b', '/home/a\\%b'])('%j is read differently by crons and refused', (path) => {
  expect(() => crontabWord(path)).toThrow(/backslash.*rename the folder\.$/);
});

const calls = (...tiers: string[]): TimedCall[] =>
  tiers.map((name) => ({ name, period: parseCronPeriod(name) as CronPeriod }));
const usual = calls('15min', 'hourly', 'daily', 'weekly', 'monthly');
const unusual = fc.subarray(['5min', '10min', '20min', '30min', '2hours', '12hours', '3days', '1min', '45min']);

test('no two of the usual tiers start in the same minute, nor within two of each other', () => {
  fc.assert(
    fc.property(fc.string(), (root) => {
      const [quarter = 0, ...others] = chooseMinutes(root, usual);
      const starts = [0, 15, 30, 45].map((minute) => minute + quarter).concat(others);
      const sorted = starts.toSorted((a, b) => a - b);
      const gaps = sorted.map((minute, index) => (sorted[index + 1] ?? minute + 60) - minute);
      expect(Math.min(...gaps)).toBeGreaterThanOrEqual(3);
    }),
  );
});

test('the minutes in which everybody starts are left free', () => {
  fc.assert(
    fc.property(fc.string(), (root) => {
      expect(chooseMinutes(root, usual).filter((minute) => minute % 15 === 0)).toEqual([]);
    }),
  );
});

test('two accounts start at different minutes, one account always at the same', () => {
  const roots = Array.from({ length: 50 }, (_, index) => `/home/user${index}/runner`);
  const hourly = roots.map((root) => chooseMinutes(root, usual)[1]);
  expect(new Set(hourly).size).toBeGreaterThan(15);
  expect(roots.map((root) => chooseMinutes(root, usual)[1])).toEqual(hourly);
});

test('a usual tier keeps its minute whatever other tiers there are', () => {
  fc.assert(
    fc.property(fc.string(), fc.subarray(usual), unusual, (root, some, others) => {
      const all = chooseMinutes(root, usual);
      const found = chooseMinutes(root, [...calls(...others), ...some]).slice(others.length);
      expect(found).toEqual(some.map((call) => all[usual.indexOf(call)]));
    }),
  );
});

test('a tier of each minute leaves no minute free, and every tier still has one', () => {
  expect(chooseMinutes('/home/me', calls('1min', '5min', 'hourly'))).toEqual([
    0,
    expect.toSatisfy((minute: number) => minute >= 0 && minute < 5),
    expect.toSatisfy((minute: number) => minute >= 0 && minute < 60),
  ]);
});

describe('installed lines', () => {
  const request = (tiers: readonly string[], installed: readonly string[] = []): LinesRequest => ({
    root: '/home/me',
    script: '~/.folder-runner/cron',
    calls: tierCalls(tiers),
    installed,
  });
  const crontabLines = (asked: LinesRequest) => planLines(asked).lines;

  test('keep their minutes whatever comes and goes, and new ones keep clear of them', () => {
    fc.assert(
      fc.property(unusual, unusual, fc.nat(59), (before, after, minute) => {
        const first = crontabLines(request([...before, 'hourly'])).map((line) =>
          line.endsWith(' hourly /home/me') ? line.replace(/^\d+/, String(minute)) : line,
        );
        const tiers = [...new Set([...before, ...after, 'hourly', 'daily'])];
        const lines = crontabLines(request(tiers, first));
        expect(lines).toEqual(expect.arrayContaining(first));
        expect(lines).toHaveLength(tiers.length);
        const daily = Number(lines.find((line) => line.endsWith(' daily /home/me'))?.split(' ')[0]);
        expect(daily).not.toBe(minute);
      }),
    );
  });

  test('keep times that somebody has chosen', () => {
    const [line = ''] = crontabLines(request(['daily']));
    for (const times of ['7 * * * *', '@daily', '*/5 * * * *', '7 23 * * 1-5']) {
      const changed = line.replace(/^(?:\S+ ){5}/, `${times} `);
      expect(crontabLines(request(['daily'], [changed]))).toEqual([changed]);
    }
  });

  test('that call all tiers, or work off the queue, keep theirs, too', () => {
    const all = [dueCall(['15min'], []), workCall(5)];
    const lines = crontabLines({ ...request([]), calls: all });
    const moved = lines.map((line) => line.replace(/^\d+/, (minute) => String((Number(minute) + 1) % 5)));
    expect(moved).not.toEqual(lines);
    expect(crontabLines({ ...request([], moved), calls: all })).toEqual(moved);
    const more = crontabLines({ ...request([], moved), calls: [dueCall(['5min'], []), workCall(5)] });
    expect(more).toEqual([expect.stringMatching(/^[0-4]-59\/5 .* due /), moved[1]]);
  });
});

test.each([
  ['15min', { unit: 'minute', step: 15, nth: 1 }],
  ['1min', { unit: 'minute', step: 1, nth: 1 }],
  ['hourly', { unit: 'hour', step: 1, nth: 1 }],
  ['60min', { unit: 'hour', step: 1, nth: 1 }],
  ['2hours', { unit: 'hour', step: 2, nth: 1 }],
  ['120min', { unit: 'hour', step: 2, nth: 1 }],
  ['24hours', { unit: 'day', step: 1, nth: 1 }],
  ['1440min', { unit: 'day', step: 1, nth: 1 }],
  ['daily', { unit: 'day', step: 1, nth: 1 }],
  ['weekly', { unit: 'week', step: 1, nth: 1 }],
  ['monthly', { unit: 'month', step: 1, nth: 1 }],
  ['yearly', { unit: 'year', step: 1, nth: 1 }],
])('%s is a period that cron itself can say', (tier, period) => {
  expect(parseCronPeriod(tier)).toEqual(period);
});

test.each([
  ['7min', { unit: 'minute', step: 1, nth: 7 }],
  ['45min', { unit: 'minute', step: 15, nth: 3 }],
  ['90min', { unit: 'minute', step: 30, nth: 3 }],
  ['5hours', { unit: 'hour', step: 1, nth: 5 }],
  ['36hours', { unit: 'hour', step: 12, nth: 3 }],
  ['3days', { unit: 'day', step: 1, nth: 3 }],
  ['72hours', { unit: 'day', step: 1, nth: 3 }],
])('%s is a period that takes each nth of more frequent times', (tier, period) => {
  expect(parseCronPeriod(tier)).toEqual(period);
});

test.each(['manual', 'queue', '0min', 'min', '15 min', 'constructor', '99999days', ''])('%j has no period', (tier) => {
  expect(parseCronPeriod(tier)).toBeNull();
});
