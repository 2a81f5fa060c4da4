import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { findDisabled } from '../../../src/discovery/not-run.ts';
import { parseOpenWindow, parseOutcomes, parseTimeWindow, readJobStates } from '../../../src/report/text/filters.ts';
import { findHold } from '../../../src/report/text/words.ts';
import { findTarget, type Target } from '../../../src/report/why/why.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import type { Pause } from '../../../src/store/statements/pauses.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const iso = (ms: number): string => new Date(ms).toISOString();
const since = (text: string): string => iso(parseTimeWindow({ since: text }, now).sinceMs);

describe('a time window', () => {
  const before = process.env.TZ;
  beforeAll(() => {
    process.env.TZ = 'Europe/Berlin';
  });
  afterAll(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });

  test('is the last seven days unless said otherwise, the present moment included', () => {
    const window = parseTimeWindow({}, now);
    expect(iso(window.sinceMs)).toBe('2026-10-27T14:05:00.000Z');
    expect(window.untilMs).toBe(now + 1);
  });

  test('begins a duration ago', () => {
    expect(since('90m')).toBe('2026-11-03T12:35:00.000Z');
    expect(since('2 days')).toBe('2026-11-01T14:05:00.000Z');
  });

  test('begins at a local time', () => {
    expect(since('2026-11-01')).toBe('2026-10-31T23:00:00.000Z');
    expect(since('2026-11-01 10:00')).toBe('2026-11-01T09:00:00.000Z');
    expect(since('2026-11-01T10:00:30')).toBe('2026-11-01T09:00:30.000Z');
    expect(since('2026-11-01T10:00Z')).toBe('2026-11-01T10:00:00.000Z');
    expect(since('yesterday')).toBe('2026-11-01T23:00:00.000Z');
    expect(since('07:00')).toBe('2026-11-03T06:00:00.000Z');
  });

  test('ends with the whole day that --until names, also one of 25 hours', () => {
    const day = parseTimeWindow({ since: '2026-10-25', until: '2026-10-25' }, now);
    expect(day.untilMs - day.sinceMs).toBe(25 * 3_600_000);
  });

  test('last night is from the evening to the morning, at any hour of the day', () => {
    for (const at of ['2026-11-03T00:30:00Z', '2026-11-03T14:05:00Z', '2026-11-03T22:30:00Z']) {
      const night = parseTimeWindow({ since: 'last night', until: 'Last  Night' }, Date.parse(at));
      expect([night.sinceMs, night.untilMs].map(iso)).toEqual(['2026-11-02T17:00:00.000Z', '2026-11-03T07:00:00.000Z']);
    }
  });

  test.each([
    'last nights',
    'night',
    '7',
    'someday',
    '-3d',
    '2026-02-30',
    '2026-13-01',
    '2026-11-01 25:00',
    '',
    '7d; rm',
  ])('cannot begin at %j', (text) => {
    expect(() => parseTimeWindow({ since: text }, now)).toThrow(
      `--since must be a duration back from now such as 7d or 12h, a day such as yesterday or monday, last night, or a local time such as 07:00, 2026-11-01 or "2026-11-01 10:00", found ${JSON.stringify(text)}.`,
    );
  });

  test('cannot end before it begins', () => {
    expect(() => parseTimeWindow({ since: '1d', until: '2d' }, now)).toThrow('--since 1d is not before --until 2d');
  });
});

test('a window without a default is open where nothing is said', () => {
  const open = { sinceMs: undefined, untilMs: undefined };
  expect(parseOpenWindow({}, now)).toEqual(open);
  expect(parseOpenWindow({ since: '2h' }, now)).toEqual({ ...open, sinceMs: Date.parse('2026-11-03T12:05:00Z') });
  expect(parseOpenWindow({ until: '30d' }, now)).toEqual({ ...open, untilMs: Date.parse('2026-10-04T14:05:00Z') });
  expect(() => parseOpenWindow({ since: '1h', until: '2h' }, now)).toThrow('--since 1h is not before --until 2h');
});

test.each([
  ['failed', { state: ['failed'] }],
  ['queued, retrying', { state: ['queued', 'retrying'] }],
  ['ready', { due: 'ready' }],
  ['delayed', { due: 'delayed' }],
  ['failed,ready', { state: ['queued', 'retrying', 'failed'], due: 'ready' }],
  ['ready,delayed', { state: ['queued', 'retrying'] }],
])('%j asks for %j', (text, asked) => {
  expect(readJobStates(text)).toEqual(asked);
});

test.each([
  ['faild', 'found "faild"; did you mean failed?'],
  ['ready,queued', 'ready is a part of queued, so give one of them.'],
  ['', 'found ""'],
])('%j is wrong use', (text, message) => {
  expect(() => readJobStates(text)).toThrow(message);
});

test('outcomes are named one by one, and a slip is pointed out', () => {
  expect(parseOutcomes('failed, timed-out')).toEqual(['failed', 'timed-out']);
  expect(() => parseOutcomes('faild')).toThrow('found "faild"; did you mean failed?');
  expect(() => parseOutcomes('')).toThrow(
    '--outcome must be one of succeeded, failed, timed-out, killed, crashed, not-started, released, stopped, running',
  );
});

const pause = (name: string): Pause => ({ name, kind: 'pause', until: null, createdAt: 0, by: null });
const failing = (name: string): Pause => ({ ...pause(name), kind: 'fail-fast' });
const job = { name: 'mail/welcome', state: 'queued' } as const;

test.each([
  [[pause('*')], '*'],
  [[pause('queue')], 'queue'],
  [[pause('queue/mail/*')], 'queue/mail/*'],
  [[pause('queue/export'), pause('mail'), pause('hourly')], null],
  [[failing('queue'), pause('queue/mail/welcome')], 'queue/mail/welcome'],
  [[failing('queue/m*'), pause('queue/export')], 'queue/m*'],
  [[], null],
])('among %j a job of mail/welcome is held by %j', (pauses, name) => {
  expect(findHold(pauses, job)?.name ?? null).toBe(name);
});

test.each([
  ['queued', true],
  ['retrying', true],
  ['claimed', false],
  ['running', false],
  ['paused', false],
  ['failed', false],
  ['finished', false],
  ['cancelled', false],
] as const)('that %s jobs are held is %j', (state, isHeld) => {
  expect(findHold([pause('queue')], { ...job, state }) !== null).toBe(isHeld);
});

const sh = executable('#!/bin/sh\n');
const files = {
  'jobs/hourly/clean.sh': sh,
  'jobs/hourly/report/index.mjs': '',
  'jobs/hourly/same.sh': sh,
  'jobs/daily/same.sh': sh,
  'jobs/daily/old.sh.disabled': sh,
  'jobs/daily/_draft.mjs': '',
  'jobs/daily/notes.txt': '',
  'jobs/daily/plain': 'no script',
  'jobs/daily/node_modules/x/y.js': '',
  'jobs/queue/mail.sh': sh,
} as const;

async function find(word: string, cwd = ''): Promise<Target & { readonly root: string }> {
  const root = makeTemporaryRoot(files);
  const discovery = await discover(root, defaultSettings);
  const logged = ['hourly/clean', 'hourly/gone'];
  const disabled = findDisabled(root);
  const query = { word: word.replace('ROOT', root), root, cwd: join(root, cwd), discovery, disabled, logged };
  return { ...findTarget(query), root };
}

test.each([
  ['hourly/clean', '', 'hourly/clean'],
  ['clean', '', 'hourly/clean'],
  ['clean.sh', '', 'hourly/clean'],
  ['hourly/clean.sh', '', 'hourly/clean'],
  ['jobs/hourly/clean.sh', '', 'hourly/clean'],
  ['ROOT/jobs/hourly/clean.sh', '', 'hourly/clean'],
  ['./clean.sh', 'jobs/hourly', 'hourly/clean'],
  ['jobs/hourly/report', '', 'hourly/report'],
  ['report', '', 'hourly/report'],
  ['./same.sh', 'jobs/daily', 'daily/same'],
])('%s, said in %j, is the script %s', async (word, cwd, name) => {
  expect(await find(word, cwd)).toMatchObject({ kind: 'script', script: { name } });
});

test.each([
  ['jobs/daily/notes.txt', 'jobs/daily/notes.txt'],
  ['notes.txt', 'jobs/daily/notes.txt'],
  ['daily/notes', 'jobs/daily/notes.txt'],
  ['draft', 'jobs/daily/_draft.mjs'],
  ['_draft', 'jobs/daily/_draft.mjs'],
  ['daily/_draft', 'jobs/daily/_draft.mjs'],
  ['daily/plain', 'jobs/daily/plain'],
  ['jobs/daily/node_modules/x/y.js', 'jobs/daily/node_modules'],
])('%s is the file %s, which is ignored', async (word, path) => {
  const { root, ...target } = await find(word);
  expect(target).toMatchObject({ kind: 'ignored', ignored: { path: join(root, path) } });
});

test.each(['daily/old', 'jobs/daily/old.sh', 'jobs/daily/old.sh.disabled', 'old'])(
  '%s is the script daily/old, which is disabled',
  async (word) => {
    const { root, ...target } = await find(word);
    const path = join(root, 'jobs/daily/old.sh.disabled');
    expect(target).toEqual({ kind: 'disabled', disabled: { name: 'daily/old', tier: 'daily', path } });
  },
);

test('a script that is gone is known from the log', async () => {
  expect(await find('gone')).toMatchObject({ kind: 'gone', name: 'hourly/gone' });
});

test.each([
  ['hourly/claen', 'hourly/clean'],
  ['claen', 'hourly/clean'],
  ['nothing-like-it', null],
])('%s is unknown, and nearest to %s', async (word, nearest) => {
  expect(await find(word)).toMatchObject({ kind: 'unknown', nearest });
});

test.each([['queue/mail'], ['mail'], ['jobs/queue/mail.sh'], ['mail?user=7']])(
  '%s is a handler, and not asked about',
  async (word) => {
    await expect(find(word)).rejects.toThrow(
      `"${word}" is the handler of jobs called mail: \`npx folder-runner jobs mail\` lists them`,
    );
  },
);

test.each([
  ['hourly', '', 'is a tier: .* name it: hourly/<script>\\.$'],
  ['jobs/hourly', '', 'is a tier: .* name it: hourly/<script>\\.$'],
  ['ROOT/jobs/daily/', '', 'is a tier: .* name it: daily/<script>\\.$'],
  ['.', 'jobs/daily', 'is a tier: .* name it: daily/<script>\\.$'],
  ['jobs', '', 'contains the tiers: `npx folder-runner list`'],
  ['queue', '', 'contains the handlers of queued jobs: `npx folder-runner jobs`'],
  ['jobs/queue', '', 'contains the handlers of queued jobs: `npx folder-runner jobs`'],
  ['same', '', 'is ambiguous \\(2 matches\\): hourly/same, daily/same\\.'],
])('%s, said in %j, is no answerable question', async (word, cwd, answer) => {
  await expect(find(word, cwd)).rejects.toThrow(new RegExp(`^"\\S+" ${answer}`));
});

test.each([[''], [' ']])('%j names nothing', async (word) => {
  await expect(find(word)).rejects.toThrow('`npx folder-runner why` needs the name of a script, or a file in jobs/.');
});
