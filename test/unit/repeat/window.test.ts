import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DayWindow } from '../../../src/schedule/repeat/rule.ts';
import { nextOpening, parseWindow } from '../../../src/schedule/repeat/window.ts';
import { MINUTE_MS } from '../../../src/system/base/values.ts';
import { tries } from '../../support/tries.ts';
import { at } from './support.ts';

describe('a window is read:', () => {
  test.each([
    ['22:00 and 05:00', { from: 1320, to: 300 }],
    ['9:00 and 17:30', { from: 540, to: 1050 }],
  ])('%s', (text, expected) => {
    expect(parseWindow(text)).toEqual(expected);
  });

  test.each([
    ['10pm and 5am', '22:00 and 05:00'],
    ['22:00 to 05:00', '22:00 and 05:00'],
    ['22:00-05:00', '22:00 and 05:00'],
    ['22 and 5', '22:00 and 05:00'],
    ['noon and midnight', '12:00 and 00:00'],
    ['22:00 and 24:00', '22:00 and 00:00'],
  ])('%s is corrected', (text, meant) => {
    expect(parseWindow(text)).toMatchObject({ meant });
  });

  test.each([
    ['22:00', 'between needs two times such as between 22:00 and 05:00, found "22:00"'],
    ['22:00 and 25:00', 'between needs two times such as between 22:00 and 05:00, found "22:00 and 25:00"'],
    ['00:00 and 24:00', 'between needs two times such as between 22:00 and 05:00, found "00:00 and 24:00"'],
    ['22:00 and 22:00', 'between needs two different times, found "22:00 and 22:00"'],
  ])('%s is refused', (text, fault) => {
    expect(parseWindow(text)).toEqual({ fault });
  });
});

describe('the next opening:', () => {
  test.each([
    ['22:00 and 05:00', '2026-11-30 12:00', 'UTC', '2026-11-30 22:00'],
    ['22:00 and 05:00', '2026-11-30 04:59:59', 'UTC', '2026-11-30 04:59:59'],
    ['22:00 and 05:00', '2026-11-30 05:00', 'UTC', '2026-11-30 22:00'],
    ['09:00 and 17:00', '2026-11-30 17:00', 'Europe/Berlin', '2026-12-01 08:00'],
    // The clocks go from 02:00 to 03:00 at 01:00 UTC.
    ['02:30 and 05:00', '2026-03-29 00:00', 'Europe/Berlin', '2026-03-29 01:00'],
    ['02:10 and 02:50', '2026-03-29 00:00', 'Europe/Berlin', '2026-03-30 00:10'],
    // They go back from 03:00 to 02:00.
    ['02:00 and 02:30', '2026-10-25 00:30', 'Europe/Berlin', '2026-10-25 01:00'],
    ['10:00 and 11:00', '2011-12-30 09:59', 'Pacific/Apia', '2011-12-30 20:00'],
  ])('of %s after %s in %s', async (text, after, zone, expected) => {
    expect(await nextOpening(parseWindow(text) as DayWindow, at(after), zone)).toBe(at(expected));
  });

  test('is the first minute that the clocks show in it', async () => {
    const anyMinute = fc.integer({ min: 0, max: 1439 });
    const property = async (zone: string, from: number, to: number, change: string, minutes: number): Promise<void> => {
      fc.pre(from !== to);
      const format = new Intl.DateTimeFormat('en-GB', {
        timeZone: zone,
        hour: '2-digit',
        minute: '2-digit',
        hourCycle: 'h23',
      });
      const isOpen = (atMs: number): boolean => {
        const [hour = 0, minute = 0] = format.format(atMs).split(':').map(Number);
        const shown = hour * 60 + minute;
        return from < to ? from <= shown && shown < to : from <= shown || shown < to;
      };
      const startMs = at(change) + minutes * MINUTE_MS;
      let walked = startMs;
      while (!isOpen(walked)) walked += MINUTE_MS;
      expect(await nextOpening({ from, to }, startMs, zone)).toBe(walked);
    };
    const changes = fc.constantFrom(
      ['Europe/Berlin', '2026-03-29'],
      ['Europe/Berlin', '2026-10-25'],
      ['America/St_Johns', '2026-03-08'],
      ['America/St_Johns', '2026-11-01'],
      ['Australia/Lord_Howe', '2026-10-03 12:00'],
      ['Australia/Lord_Howe', '2026-04-04 12:00'],
      ['Pacific/Apia', '2011-12-30'],
      ['UTC', '2026-06-01'],
    );
    const around = fc.integer({ min: -2000, max: 2000 });
    await fc.assert(
      fc.asyncProperty(changes, anyMinute, anyMinute, around, ([zone = '', change = ''], from, to, minutes) =>
        property(zone, from, to, change, minutes),
      ),
      { numRuns: tries(500) },
    );
  });
});
