import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { describeExcess } from '../../../src/child/contract.ts';
import {
  expectedDuration,
  longestDurationMs,
  parseByteSize,
  parseDelayMs,
  parseDurationMs,
} from '../../../src/settings/readers.ts';
import { memberOf, parseExactly, writeExactly } from '../../../src/system/base/exact-json.ts';
import { readLocalTime } from '../../../src/system/base/local-time.ts';
import { allEnded, describeFound, longestTimerMs, printableName, shellWord } from '../../../src/system/base/values.ts';
import { tries } from '../../support/tries.ts';

const circle: { self?: unknown } = {};
circle.self = circle;

test.each([
  ['soon', '"soon"'],
  [undefined, 'undefined'],
  [10n, '10n'],
  [7.5, '7.5'],
  [Number.NaN, 'NaN'],
  [Symbol('a'), 'Symbol(a)'],
  ['x'.repeat(100), `"${'x'.repeat(79)}…`],
  [circle, 'a value that is not JSON'],
  [{ a: 1n }, 'a value that is not JSON'],
])('what was found is shown, whatever it is: %#', (found, shown) => {
  expect(describeFound(found)).toBe(shown);
});

test('a plain path stays as it is', () => {
  expect(shellWord('jobs/15min/clean-tmp.v2.sh')).toBe('jobs/15min/clean-tmp.v2.sh');
});

test('a shell reads back any path as one word', () => {
  const path = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\0'));
  const nasty = fc
    .array(fc.constantFrom("'", '"', '$x', '`', '\\', ' ', '\n', '%', '*', '-', '~', '!'))
    .map((signs) => `a${signs.join('')}`);
  fc.assert(
    fc.property(fc.oneof(path, nasty), (given) => {
      const printed = execFileSync('/bin/sh', ['-c', `printf '%s' ${shellWord(given)}`]);
      expect(printed.toString()).toBe(given);
    }),
    { numRuns: tries(50) },
  );
});

test.each([
  ['clean-tmp', 'clean-tmp'],
  ['größe 100% "x" \'y\' 👩‍💻', 'größe 100% "x" \'y\' 👩‍💻'],
  ['a\nb\tc\r', 'a\\nb\\tc\\r'],
  ['\u001b[31m\u0000', '\\u001b[31m\\u0000'],
  ['\u007f\u0085\u2028', '\\u007f\\u0085\\u2028'],
  ['gpj\u202ehs', 'gpj\\u202ehs'],
])('%j is shown as %s', (name, shown) => {
  expect(printableName(name)).toBe(shown);
});

test('no name is shown with a control character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      expect(printableName(name)).not.toMatch(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u);
    }),
  );
});

test('of several that have failed, the one that failed first is thrown, once all have ended', async () => {
  const ended: string[] = [];
  const fail = async (name: string, turns: number): Promise<never> => {
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    ended.push(name);
    throw new Error(name);
  };
  await expect(allEnded([fail('follows from it', 20), fail('the cause', 2)])).rejects.toThrow('the cause');
  expect(ended).toEqual(['the cause', 'follows from it']);
});

test.each([
  '9007199254740993',
  '-9223372036854775808',
  '0.12345678901234567890',
  '1e400',
  '-0',
  'true',
  '"\\u0030 \\" {\\\\"',
  '[1.50,{"a":[20e3]}]',
  '{"b":1,"10":2,"9":3,"b":4}',
  '{"__proto__":{"id":9007199254740993},"constructor":1.0}',
])('%s is passed on letter by letter', (text) => {
  const loose = text.replaceAll(/([,:[{}\]])(?=[^\\]*$)/g, '$1 \n\t');
  expect(parseExactly(text)?.text).toBe(text);
  expect(parseExactly(` ${loose}\n`)?.text).toBe(text);
  const written = writeExactly({ data: [parseExactly(text)], more: '"\\u00300"' });
  expect(written.replaceAll(/\n *|(?<=":) /g, '')).toBe(`{"data":[${text}],"more":"\\"\\\\u00300\\""}`);
});

test('it is written as deep as JSON.stringify writes it, whatever it holds', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const exact = Object.entries(value).map(([key, each]) => [key, parseExactly(JSON.stringify(each, null, 1))]);
      expect(writeExactly(Object.fromEntries(exact))).toBe(JSON.stringify(value, null, 2));
    }),
  );
});

test("a key's text is found, at the top only, the last one of two", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom('a', 'b', '"', '1'), fc.jsonValue())), (members) => {
      const text = members.map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`).join(' , ');
      const object = parseExactly(`{${text}}`);
      const last = members.findLast(([key]) => key === 'a');
      expect(object && memberOf(object, 'a')?.text).toBe(last && JSON.stringify(last[1]));
    }),
  );
});

test('a mebibyte of escapes, of signs or of one text is as good', () => {
  for (const text of [`"${'\\n'.repeat(500_000)}"`, `[${'[],'.repeat(300_000)}0]`, `"${'x'.repeat(1_000_000)}"`]) {
    expect(parseExactly(text)?.text).toBe(text);
  }
});

test('null is null; a value that is not JSON is refused', () => {
  expect(parseExactly(' null ')).toBeNull();
  expect(() => parseExactly('{a:1}')).toThrow(SyntaxError);
});

const MIB = 1024 * 1024;
const nested = (depth: number): string => '[{"a":'.repeat(depth / 2) + 1 + '}]'.repeat(depth / 2);

test.each([
  ['{}'],
  [`"${'x'.repeat(MIB - 2)}"`],
  [nested(1000)],
  [`[${nested(998)},${nested(998)}]`],
  ['['.repeat(1000) + ']'.repeat(1000)],
  [JSON.stringify('[{'.repeat(2000))],
  [JSON.stringify('\\"['.repeat(2000))],
])('is what a job may hold: %#', (text) => {
  JSON.parse(text);
  expect(describeExcess(text)).toBeNull();
});

test.each([
  [`"${'x'.repeat(MIB - 1)}"`, `JSON of at most 1 MiB, found ${MIB + 1} bytes; `],
  [`"${'é'.repeat(MIB / 2)}"`, `JSON of at most 1 MiB, found ${MIB + 2} bytes; `],
  [nested(1002), 'JSON nested at most 1000 deep'],
  ['['.repeat(1001) + ']'.repeat(1001), 'JSON nested at most 1000 deep'],
  [`["\\"]",${nested(1000)}]`, 'JSON nested at most 1000 deep'],
])('is more than that: %#', (text, expected) => {
  JSON.parse(text);
  expect(describeExcess(text)?.slice(0, expected.length)).toBe(expected);
});

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

test.each([
  ['250ms', 250],
  ['30s', 30_000],
  ['10m', 600_000],
  ['10min', 600_000],
  ['10 minutes', 600_000],
  ['1.5h', 5_400_000],
  ['2 hours', 7_200_000],
  ['90d', 7_776_000_000],
  ['2w', 1_209_600_000],
  ['100000d', longestDurationMs],
])('%s is %i ms', (text, durationMs) => {
  expect(parseDurationMs(text)).toBe(durationMs);
});

test.each([
  '',
  ' ',
  '10',
  'm',
  '0s',
  '0.0001ms',
  '-5m',
  '+5m',
  '10M',
  '10 parsecs',
  '1e3s',
  '10m 5s',
  '10m10',
  '5y',
  'Infinitys',
  'NaNs',
  '٣s',
  '1.s',
  '.5s',
  `${'9'.repeat(400)}d`,
  '100001d',
  '10m\n',
])('%j is no duration', (text) => {
  expect(parseDurationMs(text)).toBeNull();
});

test.each([
  ['0', 0],
  ['0s', 0],
  ['0 min', 0],
  ['0.0001ms', 0],
  ['30s', 30_000],
  ['', null],
  ['0 parsecs', null],
  ['00', null],
  ['-1s', null],
  ['10', null],
])('a delay of %j is %j ms', (text, delayMs) => {
  expect(parseDelayMs(text)).toBe(delayMs);
});

test('any text gives a positive whole number of milliseconds, with which there is a date, or null', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^\d{1,20}(\.\d{1,9})? ?[smhdw]$/)), (text) => {
      const durationMs = parseDurationMs(text);
      if (durationMs === null) return;
      expect(Number.isSafeInteger(durationMs) && durationMs > 0).toBe(true);
      const dates = [Date.now() + durationMs, Date.now() - durationMs];
      expect(dates.map((ms) => new Date(ms).getTime())).toEqual(dates);
    }),
  );
});

test.each([
  ['soon', 'a duration such as 30s, 10m or 2h'],
  ['0s', 'a duration such as 30s, 10m or 2h'],
  [30, 'a duration such as 30s, 10m or 2h'],
  [' 100001d ', 'a duration of at most 100000d'],
])('where %j was found, %s is expected', (found, expected) => {
  expect(expectedDuration(found)).toBe(expected);
});

test('a timer of the longest time waits, and one of a millisecond more fires at once', async () => {
  const warnings: string[] = [];
  const collect = (warning: Error) => warnings.push(warning.name);
  process.on('warning', collect);
  clearTimeout(setTimeout(() => {}, longestTimerMs));
  clearTimeout(setTimeout(() => {}, longestTimerMs + 1));
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', collect);
  expect(warnings).toEqual(['TimeoutOverflowWarning']);
});

test.each([
  ['100b', 100],
  ['64kb', 65_536],
  ['256mb', 268_435_456],
  ['256 MB', 268_435_456],
  ['1.5gb', 1_610_612_736],
  ['1tb', 1_099_511_627_776],
  ['1G', 1_073_741_824],
  ['256m', 268_435_456],
  ['256MiB', 268_435_456],
])('%s is %i bytes', (text, size) => {
  expect(parseByteSize(text)).toBe(size);
});

test.each(['', '256', 'mb', '0mb', '-1mb', '256mi', '256bb', '1e3kb', 'NaNkb', '64kb ', '1pb', `${'9'.repeat(400)}tb`])(
  '%j is no size',
  (text) => {
    expect(parseByteSize(text)).toBeNull();
  },
);

test('any text gives a positive whole number of bytes or null', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^\d{1,20}(\.\d{1,9})? ?[kmgt]?b$/)), (text) => {
      const size = parseByteSize(text);
      expect(size === null || (Number.isSafeInteger(size) && size > 0)).toBe(true);
    }),
  );
});
