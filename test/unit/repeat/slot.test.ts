import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatInstant } from '../../../src/schedule/repeat/rule.ts';
import { slotAt } from '../../../src/schedule/script-times.ts';
import { tries } from '../../support/tries.ts';
import { at, calendarOf } from './support.ts';

/** The times of a slot as text. */
async function slot(rule: string, queuedFor: string, now: string) {
  const { at: atMs, nextMs, lapsesMs } = await slotAt(calendarOf(rule), at(queuedFor), at(now));
  const text = (each: number | null) => (each === null ? null : formatInstant(each).slice(0, 16));
  return [text(atMs), text(lapsesMs), text(nextMs)];
}

test.each([
  // A time lapses when the day of the next one begins; until then it waits.
  [
    'daily at 08:30 in UTC',
    '2026-03-02 08:30',
    '2026-03-02 23:59',
    ['2026-03-02 08:30', '2026-03-03 00:00', '2026-03-03 08:30'],
  ],
  [
    'daily at 08:30 in UTC',
    '2026-03-02 08:30',
    '2026-03-03 08:29',
    ['2026-03-02 08:30', '2026-03-03 00:00', '2026-03-03 08:30'],
  ],
  [
    'daily at 08:30 in UTC',
    '2026-03-02 08:30',
    '2026-03-03 08:30',
    ['2026-03-03 08:30', '2026-03-04 00:00', '2026-03-04 08:30'],
  ],
  [
    'weekdays at 08:30 in UTC',
    '2026-03-06 08:30',
    '2026-03-07 12:00',
    ['2026-03-06 08:30', '2026-03-09 00:00', '2026-03-09 08:30'],
  ],
  // Within a day, each time lasts until the next one.
  [
    'daily at 08:00 and 16:00 in UTC',
    '2026-03-02 08:00',
    '2026-03-02 12:00',
    ['2026-03-02 08:00', '2026-03-02 16:00', '2026-03-02 16:00'],
  ],
  [
    'daily at 00:00 in UTC',
    '2026-03-02',
    '2026-03-02 12:00',
    ['2026-03-02 00:00', '2026-03-03 00:00', '2026-03-03 00:00'],
  ],
  // A clock that was set back: the time for which it was queued stays.
  [
    'daily at 08:30 in UTC',
    '2026-03-03 08:30',
    '2026-03-02 12:00',
    ['2026-03-03 08:30', '2026-03-04 00:00', '2026-03-04 08:30'],
  ],
  // The day begins where the rule's clocks show it, at the change if they skip midnight.
  [
    'daily at 08:30 in America/Havana',
    '2026-03-07 13:30',
    '2026-03-07 14:00',
    ['2026-03-07 13:30', '2026-03-08 05:00', '2026-03-08 12:30'],
  ],
  [
    'daily at 23:30 in Europe/Berlin',
    '2026-10-24 21:30',
    '2026-10-25 12:00',
    ['2026-10-24 21:30', '2026-10-24 22:00', '2026-10-25 22:30'],
  ],
])('%s, queued for %s, at %s', async (rule, queuedFor, now, expected) => {
  expect(await slot(rule, queuedFor, now)).toEqual(expected);
});

const MINUTE = 60_000;
const zones = [
  'Europe/Berlin',
  'America/St_Johns',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'America/Havana',
  'UTC',
] as const;
const times = [
  'daily at 08:30',
  'weekdays at 00:10',
  'daily every 3 hours',
  'daily at 02:15 and 23:45',
  'monthly on last at 12:00',
];

test('told a second time minute by minute: the last time that came, the next one, and where its day begins', async () => {
  const queued = fc.integer({ min: 0, max: 300 * 1440 }).map((minute) => Date.UTC(2026, 0, 10) + minute * MINUTE);
  const later = fc.integer({ min: 0, max: 3 * 1440 });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...zones),
      fc.constantFrom(...times),
      queued,
      later,
      async (zone, words, from, minutes) => {
        const rule = calendarOf(`${words} in ${zone}`);
        const nowMs = from + minutes * MINUTE;
        const { at: atMs, nextMs, lapsesMs } = await slotAt(rule, from, nowMs);
        // Whether a minute is a time of the rule is not the question here.
        const after = async (afterMs: number) => (await slotAt(rule, afterMs, afterMs)).nextMs as number;
        let last = from;
        for (let next = await after(last); next <= nowMs; next = await after(next)) last = next;
        expect(atMs).toBe(last);
        expect(nextMs).toBe(await after(last));
        const dayOf = new Intl.DateTimeFormat('en-CA', { timeZone: zone });
        let begins = nextMs as number;
        while (begins - MINUTE > last && dayOf.format(begins - MINUTE) === dayOf.format(nextMs as number))
          begins -= MINUTE;
        const isOfOneDay = dayOf.format(last) === dayOf.format(nextMs as number);
        expect(lapsesMs).toBe(isOfOneDay ? nextMs : begins);
      },
    ),
    { numRuns: tries(200) },
  );
});
