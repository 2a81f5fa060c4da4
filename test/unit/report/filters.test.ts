import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseOpenWindow, parseOutcomes, parseTimeWindow, readJobStates } from '../../../src/report/text/filters.ts';

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

  test.each(['7', 'someday', '-3d', '2026-02-30', '2026-13-01', '2026-11-01 25:00', '', '7d; rm'])(
    'cannot begin at %j',
    (text) => {
      expect(() => parseTimeWindow({ since: text }, now)).toThrow(
        `--since must be a duration back from now such as 7d or 12h, a day such as yesterday or monday, or a local time such as 07:00, 2026-11-01 or "2026-11-01 10:00", found ${JSON.stringify(text)}.`,
      );
    },
  );

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
])('%j asks for %j', (text, asked) => {
  expect(readJobStates(text)).toEqual(asked);
});

test.each([
  ['faild', 'found "faild"; did you mean failed?'],
  ['failed,ready', 'ready or delayed alone, found "ready"'],
  ['', 'found ""'],
])('%j is wrong use', (text, message) => {
  expect(() => readJobStates(text)).toThrow(message);
});

test('outcomes are named one by one, and a slip is pointed out', () => {
  expect(parseOutcomes('failed, timed-out')).toEqual(['failed', 'timed-out']);
  expect(() => parseOutcomes('faild')).toThrow('found "faild"; did you mean failed?');
  expect(() => parseOutcomes('')).toThrow(
    '--outcome must be one of succeeded, failed, timed-out, killed, crashed, not-started, released, running',
  );
});
