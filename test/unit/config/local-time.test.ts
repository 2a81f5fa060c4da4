import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readLocalTime } from '../../../src/system/base/local-time.ts';

const before = process.env.TZ;
beforeEach(() => {
  process.env.TZ = 'Europe/Berlin';
});
afterEach(() => {
  if (before === undefined) delete process.env.TZ;
  else process.env.TZ = before;
});

/** A Monday, 10:30 in Berlin. */
const now = Date.parse('2026-11-23T09:30:00Z');

function read(text: string, direction: 'past' | 'future'): string | null {
  const span = readLocalTime(text, now, direction);
  if (span === null) return null;
  const [start, end] = [span.startMs, span.endMs].map((ms) => new Date(ms).toISOString().slice(0, 16));
  return start === end ? (start as string) : `${start} to ${end}`;
}

const today = '2026-11-22T23:00 to 2026-11-23T23:00';

describe('a time is read by the clocks of the host:', () => {
  test.each([
    ['2026-11-23 07:00', '2026-11-23T06:00', '2026-11-23T06:00'],
    ['2026-11-23T07:00', '2026-11-23T06:00', '2026-11-23T06:00'],
    ['2026-11-23T07:00Z', '2026-11-23T07:00', '2026-11-23T07:00'],
    ['2026-11-23 07:00+05:30', '2026-11-23T01:30', '2026-11-23T01:30'],
    ['2026-11-23', today, today],
    ['today', today, today],
    ['now', '2026-11-23T09:30', '2026-11-23T09:30'],
    ['Yesterday', '2026-11-21T23:00 to 2026-11-22T23:00', '2026-11-21T23:00 to 2026-11-22T23:00'],
    ['tomorrow 7:00', '2026-11-24T06:00', '2026-11-24T06:00'],
    // The last one, and the next one.
    ['monday', today, '2026-11-29T23:00 to 2026-11-30T23:00'],
    ['mon 10:30', '2026-11-23T09:30', '2026-11-30T09:30'],
    ['monday 12:00', '2026-11-16T11:00', '2026-11-23T11:00'],
    ['sunday', '2026-11-21T23:00 to 2026-11-22T23:00', '2026-11-28T23:00 to 2026-11-29T23:00'],
    ['07:00', '2026-11-23T06:00', '2026-11-24T06:00'],
    ['12:00', '2026-11-22T11:00', '2026-11-23T11:00'],
  ])('%s', (text, past, future) => {
    expect([read(text, 'past'), read(text, 'future')]).toEqual([past, future]);
  });
});

test.each([
  '',
  'soon',
  'mo',
  'yesterdy',
  '25:00',
  'today 25:00',
  '2026-02-30',
  '2026-13-01',
  '2026-11-23 07:60',
  '07:00Z',
  'mondayt07:00',
  'now 07:00',
  '2026-11-23 07:00+25:00',
])('%j is none', (text) => {
  expect(read(text, 'past')).toBeNull();
});

test('a day on which the clocks change has 25 hours', () => {
  const span = readLocalTime('2026-10-25', now, 'past');
  expect(((span?.endMs ?? 0) - (span?.startMs ?? 0)) / 3_600_000).toBe(25);
});
