import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type CrontabRequest, crontabLines, crontabWord } from '../../../src/hosting/crontab/lines.ts';
import { dueCall, tierCalls, workCall } from '../../../src/hosting/crontab/plan.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { tries } from '../../support/tries.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;

const request = (tiers: readonly string[], more: Partial<CrontabRequest> = {}): CrontabRequest => ({
  nodePath: '/opt/node/bin/node',
  commandPath: '/home/me/node_modules/folder-runner/dist/bin.cjs',
  root: '/home/me',
  calls: tierCalls(tiers),
  zoneOffsetMinutes: 0,
  ...more,
});

const command = (tier: string): string =>
  `/opt/node/bin/node /home/me/node_modules/folder-runner/dist/bin.cjs --root /home/me ${tier}`;

const timesOf = (line: string): string => line.split(' ').slice(0, 5).join(' ');

const lineOf = (tier: string, more: Partial<CrontabRequest> = {}): string =>
  crontabLines(request([tier], more))[0] ?? '';

test('each tier has a line with full paths, the most frequent first', () => {
  const lines = crontabLines(request(['daily', '15min', 'hourly']));
  expect(lines).toEqual([
    expect.stringMatching(/^(\d|1[0-4])-59\/15 \* \* \* \* /),
    expect.stringMatching(/^\d+ \* \* \* \* /),
    expect.stringMatching(/^\d+ [45] \* \* \* /),
  ]);
  const commands = ['15min', 'hourly', 'daily'].map((tier) => expect.stringMatching(new RegExp(`; ${command(tier)}$`)));
  expect(lines).toEqual(commands);
});

test('a tier that is named twice has one line', () => {
  expect(crontabLines(request(['hourly', 'hourly']))).toHaveLength(1);
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
    expect(line).not.toContain('-ne 0');
  }
});

test.each([
  [1, /^\* \* \* \* \*$/, '55s'],
  [2, /^[01]-59\/2 \* \* \* \*$/, '110s'],
  [5, /^[0-4]-59\/5 \* \* \* \*$/, '275s'],
  [15, /^(\d|1[0-4])-59\/15 \* \* \* \*$/, '14m'],
  [60, /^\d+ \* \* \* \*$/, '59m'],
])('every %i minutes a worker begins, and ends before the next one', (minutes, times, life) => {
  const [line = ''] = crontabLines(request([], { calls: [workCall(minutes)] }));
  expect(timesOf(line)).toMatch(times);
  expect(line).toMatch(new RegExp(`${command('work')} --for ${life}$`));
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

test('one line for all is as frequent as the most frequent tier', () => {
  const [line = ''] = crontabLines(request([], { calls: [dueCall(['daily', '15min'], ['--budget', '55s'])] }));
  expect(line).toMatch(/^\d+-59\/15 \* .* due --budget 55s$/);
});

test('the paths are quoted for the shell and for cron', () => {
  const line = lineOf('hourly', { root: "/home/me/it's 100%" });
  expect(line).toContain(" --root '/home/me/it'\\''s 100\\%' hourly");
});

test('a tier without a period is refused in a sentence', () => {
  expect(() => lineOf('manual')).toThrow(UsageError);
  expect(() => lineOf('manual')).toThrow(/"manual" has no period.*like 15min/);
});

test('a command that cron would cut off is refused in a sentence', () => {
  expect(() => lineOf('hourly', { root: `/home/${'x'.repeat(1000)}` })).toThrow(
    /line for hourly would be longer than the 990 bytes/,
  );
});

/** Runs the command part of a line in a real shell at a made-up time: did the runner start? */
const makeClock = (name = 'site') => {
  const parent = mkdtempSync(join(tmpdir(), 'clock-'));
  onTestFinished(() => rmSync(parent, { recursive: true, force: true }));
  const root = join(parent, name);
  mkdirSync(root);
  const place = { root, nodePath: join(root, 'node'), commandPath: join(root, 'bin.cjs') };
  writeFileSync(join(root, 'date'), '#!/bin/sh\nTZ=UTC exec /bin/date -d "@$FAKE_NOW" "$@"\n', { mode: 0o755 });
  writeFileSync(place.nodePath, '#!/bin/sh\necho started\n', { mode: 0o755 });
  writeFileSync(place.commandPath, '');
  mkdirSync(join(root, 'jobs'));
  /** What the line prints each time; a shell loop, as hundreds of shells would take long. */
  const printsAt = (line: string, times: readonly number[]): (readonly [number, string])[] => {
    const shellCommand = line.split(' ').slice(5).join(' ').replaceAll('\\%', '%');
    const loop = `for FAKE_NOW in ${times.join(' ')}; do export FAKE_NOW; r=$(${shellCommand}) || exit 9; echo "$FAKE_NOW $r"; done`;
    const output = execFileSync('/bin/sh', ['-c', loop], {
      encoding: 'utf8',
      env: { PATH: `${root}:/usr/bin:/bin` },
    });
    const printed = output.split('\n').slice(0, -1);
    return printed.map((each) => [Number.parseInt(each, 10), each.slice(each.indexOf(' ') + 1)]);
  };
  const startsAt = (line: string, times: readonly number[]): number[] =>
    printsAt(line, times).flatMap(([time, said]) => (said === 'started' ? [time] : []));
  return { place, printsAt, startsAt };
};

const distances = (times: readonly number[]): number[] =>
  times.slice(1).map((time, index) => time - (times[index] ?? 0));

/** When cron fires a daily line: minute and hour by local time, seconds since 1970. */
const dailyFirings = (line: string, days: number, zoneOffsetMinutes: number): number[] => {
  const [minute, hour] = line.split(' ').map(Number);
  const midnight = Date.UTC(2026, 11, 25) / 1000 + zoneOffsetMinutes * 60;
  return Array.from(
    { length: days },
    (_, day) => midnight + day * DAY + (hour as number) * HOUR + (minute as number) * 60,
  );
};

test.each([0, -60, 300, -345, 720])(
  '3days runs each third day, across the ends of months, %i minutes behind UTC',
  (zoneOffsetMinutes) => {
    const clock = makeClock();
    const line = lineOf('3days', { ...clock.place, zoneOffsetMinutes });
    const starts = clock.startsAt(line, dailyFirings(line, 70, zoneOffsetMinutes));
    expect(starts.length).toBeGreaterThanOrEqual(23);
    expect(new Set(distances(starts))).toEqual(new Set([3 * DAY]));
    const localDays = starts.map((start) => Math.floor((start - zoneOffsetMinutes * 60) / DAY));
    expect(localDays.every((day) => day % 3 === 0)).toBe(true);
  },
);

test('3days keeps its days when the clock changes and when cron is late', () => {
  const clock = makeClock();
  const line = lineOf('3days', { ...clock.place, zoneOffsetMinutes: -60 });
  const onTime = dailyFirings(line, 30, -60);
  const expected = clock.startsAt(line, onTime);
  for (const shift of [-HOUR, HOUR, 90, 3 * HOUR]) {
    const shifted = onTime.map((time) => time + shift);
    expect(clock.startsAt(line, shifted)).toEqual(expected.map((time) => time + shift));
  }
});

test('45min runs at every third of the quarters of an hour', () => {
  const clock = makeClock();
  const line = lineOf('45min', clock.place);
  const [, from = ''] = /^(\d+)-59\/15 /.exec(line) ?? [];
  const first = Date.UTC(2026, 5, 1) / 1000 + Number(from) * 60;
  const quarters = Array.from({ length: 96 }, (_, index) => first + index * 900 + 2);
  expect(new Set(distances(clock.startsAt(line, quarters)))).toEqual(new Set([45 * 60]));
});

describe('Node, the command or the root that went away', () => {
  const dayOf = (everyMinutes: number): number[] => {
    const midnight = Date.UTC(2026, 5, 1) / 1000;
    return Array.from(
      { length: (24 * 60) / everyMinutes },
      (_, index) => midnight + 7 * 60 + index * everyMinutes * 60,
    );
  };

  test.each(['nodePath', 'commandPath'] as const)('is told once a day, not by each call: %s', (gone) => {
    const { place, printsAt, startsAt } = makeClock();
    const hourly = lineOf('hourly', place);
    const others = [15, 5, 20, 60, 240, 720].map((minutes) => [lineOf(`${minutes}min`, place), minutes] as const);
    expect(startsAt(hourly, dayOf(60))).toHaveLength(24);
    renameSync(place[gone], `${place[gone]}.away`);
    for (const [line, minutes] of others) {
      const said = printsAt(line, dayOf(minutes)).flatMap(([, text]) => (text === '' ? [] : [text]));
      expect(said).toEqual([
        expect.stringContaining(` is not run, as ${place[gone]} is missing. Put it back, or remove`),
      ]);
    }
    renameSync(`${place[gone]}.away`, place[gone]);
    expect(startsAt(hourly, dayOf(60))).toHaveLength(24);
  });

  test('is told by each call of a day or longer', () => {
    const { place, printsAt } = makeClock();
    const line = lineOf('daily', place);
    renameSync(join(place.root, 'jobs'), join(place.root, 'gone'));
    expect(printsAt(line, [Date.UTC(2026, 5, 1, 4, 7) / 1000])).toEqual([
      [expect.any(Number), expect.stringContaining(`${place.root}/jobs is missing`)],
    ]);
  });

  test('with paths so long that cron takes no more, the shell tells of it', () => {
    const line = lineOf('hourly', { root: `/home/${'x'.repeat(400)}` });
    expect(line).not.toContain('echo');
    expect(line).toMatch(/ hourly$/);
  });
});

test('a line is short: at a usual place below 500 bytes, with each path twice', () => {
  const [root, packages] = ['/home/customer/site', '/home/customer/site/node_modules'];
  const paths = { nodePath: `${packages}/node/bin/node`, commandPath: `${packages}/folder-runner/dist/bin.cjs`, root };
  for (const line of crontabLines(request(['15min', 'hourly', 'daily'], paths))) {
    expect(line.length).toBeLessThan(500);
    expect(line.split(paths.nodePath)).toHaveLength(3);
    expect(line.split(paths.commandPath)).toHaveLength(3);
  }
});

test('paths with blanks and quotes are found where they are', () => {
  const { place, startsAt } = makeClock("it's $HOME 100%");
  expect(startsAt(lineOf('hourly', place), [Date.UTC(2026, 5, 1, 7, 7) / 1000])).toHaveLength(1);
});

/** As cron does: the first bare `%` ends the command, `\%` is a `%`. */
const commandCronRuns = (command: string): string => (command.split(/(?<!\\)%/)[0] ?? '').replaceAll('\\%', '%');

const wordTheShellGets = (word: string): string => {
  const command = commandCronRuns(`printf %s ${word}`.replace('%s', '\\%s'));
  return spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8' }).stdout;
};

test('a plain path needs no quotes', () => {
  expect(crontabWord('/home/me/site-1/dist/bin.cjs')).toBe('/home/me/site-1/dist/bin.cjs');
});

test.each([
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
