import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Dates, readDates } from '../../../src/schedule/repeat/dates.ts';
import { DAY_MS } from '../../../src/system/base/values.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const dayOf = (date: string): number => Date.parse(`${date}T00:00:00Z`) / DAY_MS;

/** A root with a file of dates, and what reading it gives. */
function read(content: string | Uint8Array, name = 'holidays.txt', allowUnsafe = false) {
  const root = makeTemporaryRoot({});
  mkdirSync(dirname(join(root, name)), { recursive: true });
  writeFileSync(join(root, name), content, { mode: 0o644 });
  return readDates(root, name, allowUnsafe);
}

/** The dates of 2026 to 2028 that a file has. */
function datesIn(content: string): string[] {
  const dates = read(content) as Dates;
  expect(dates).not.toHaveProperty('problem');
  const days = Array.from({ length: 1096 }, (_, index) => dayOf('2026-01-01') + index);
  return days.filter((day) => dates.has(day)).map((day) => new Date(day * DAY_MS).toISOString().slice(0, 10));
}

describe('a file of dates is read:', () => {
  test.each([
    ['a date in a line', '2026-12-25\n2026-12-26\n', ['2026-12-25', '2026-12-26']],
    [
      'its lines end as on Windows, and it begins with a BOM',
      '\ufeff2026-12-25\r\n\r\n2026-12-26',
      ['2026-12-25', '2026-12-26'],
    ],
    [
      'comments and remarks',
      '# public\n2026-12-25 Christmas, 1st day\n2026-12-26  # 2nd\n',
      ['2026-12-25', '2026-12-26'],
    ],
    ['words', '25 december 2026\n26th Dec 2026 – closed\n', ['2026-12-25', '2026-12-26']],
    ['a table', 'date,name\n2026-12-25,Christmas\n"2026-12-26","Boxing Day, 2nd"\n', ['2026-12-25', '2026-12-26']],
    [
      'a range',
      '2026-12-30 to 2027-01-02 Christmas holidays',
      ['2026-12-30', '2026-12-31', '2027-01-01', '2027-01-02'],
    ],
    ['a range with dots', '2026-12-30..2026-12-31', ['2026-12-30', '2026-12-31']],
    ['a range with a dash', '30 dec 2026 – 31 dec 2026', ['2026-12-30', '2026-12-31']],
    ['a dash before a remark', '2026-12-25 - Christmas', ['2026-12-25']],
    [
      'the same date of each year',
      '12-25\n1 may day of work\n',
      ['2026-05-01', '2026-12-25', '2027-05-01', '2027-12-25', '2028-05-01', '2028-12-25'],
    ],
    ['a leap day of each year', '02-29', ['2028-02-29']],
    [
      'a range over the end of each year',
      '12-31 to 01-01',
      ['2026-01-01', '2026-12-31', '2027-01-01', '2027-12-31', '2028-01-01', '2028-12-31'],
    ],
  ])('%s', (_, content, expected) => {
    expect(datesIn(content)).toEqual(expected);
  });
});

test('a file says which is its last date; dates of each year have none', () => {
  expect(read('2027-01-06\n2026-12-25')).toMatchObject({ last: dayOf('2027-01-06') });
  expect(read('2027-01-06\n12-25')).toMatchObject({ last: null });
});

describe('a wrong file is named, with its line:', () => {
  const expected = 'must begin with a date such as 2026-12-25, 12-25 or 25 december, or 2026-12-24 to 2026-12-31';

  test.each([
    ['2026-12-25\n25.12.2026\n', `holidays.txt:2: "25.12.2026" ${expected}`],
    ['2026-02-29', `holidays.txt:1: "2026-02-29" ${expected}`],
    ['Christmas 2026', `holidays.txt:1: "Christmas 2026" ${expected}`],
    ['31 april', `holidays.txt:1: "31 april" ${expected}`],
    ['2026-12-24 to 2026-12-32', `holidays.txt:1: "2026-12-24 to 2026-12-32" ${expected}`],
    ['2026-12-24 to 31', `holidays.txt:1: "2026-12-24 to 31" ${expected}`],
    ['2026-12-25T10:00', `holidays.txt:1: "2026-12-25T10:00" ${expected}`],
    ['2026-12-24 to 12-31', 'holidays.txt:1: both dates of "2026-12-24 to 12-31" need a year, or neither does'],
    ['2026-12-31 to 2026-12-24', 'holidays.txt:1: the range "2026-12-31 to 2026-12-24" ends before it begins'],
    ['2026-01-01 to 2036-01-01', 'holidays.txt:1: the range "2026-01-01 to 2036-01-01" is longer than a year'],
    ['01-01 to 12-31', 'holidays.txt has every day of each year'],
    ['# nothing yet\n', 'holidays.txt has no date: write one such as 2026-12-25 in each line'],
    ['#'.repeat(65_537), 'holidays.txt has 65537 bytes; a file of dates has at most 65536'],
  ])('%j', (content, problem) => {
    expect(read(content)).toEqual({ problem });
  });
});

describe('only a file of the root is read:', () => {
  function makeRoot() {
    const root = makeTemporaryRoot({ 'dates/2026.txt': '2026-12-25', 'folder/a': '' });
    const elsewhere = makeTemporaryRoot({ 'secret.txt': 'secret' });
    symlinkSync(join(elsewhere, 'secret.txt'), join(root, 'link.txt'));
    symlinkSync('dates/2026.txt', join(root, 'inside.txt'));
    symlinkSync(elsewhere, join(root, 'away'));
    return { root, elsewhere };
  }

  test.each(['dates/2026.txt', './dates/2026.txt', 'inside.txt'])('%s is read', (file) => {
    const { root } = makeRoot();
    for (const each of [file, join(root, file)]) {
      expect(readDates(root, each, false)).toMatchObject({ last: dayOf('2026-12-25') });
    }
  });

  test.each(['link.txt', 'away/secret.txt', '..', '.'])('%s is not', (file) => {
    const { root } = makeRoot();
    expect(readDates(root, file, true)).toEqual({ problem: `${file} is not in the root ${root}` });
  });

  test('one outside that is named by its whole path is not', () => {
    const { root, elsewhere } = makeRoot();
    const file = join(elsewhere, 'secret.txt');
    expect(readDates(root, file, true)).toEqual({ problem: `${file} is not in the root ${root}` });
  });

  test('one that is not there, and a folder', () => {
    const { root } = makeRoot();
    const hint = 'write it with a date such as 2026-12-25 in each line';
    expect(readDates(root, 'none.txt', false)).toEqual({ problem: `none.txt does not exist in ${root}: ${hint}` });
    expect(readDates(root, 'folder', false)).toEqual({ problem: 'folder is a folder, not a file of dates' });
    execFileSync('mkfifo', [join(root, 'pipe')]);
    expect(readDates(root, 'pipe', true)).toEqual({ problem: 'pipe is a special file, not a file of dates' });
  });

  test('one that others can write is refused unless that is allowed', () => {
    const { root } = makeRoot();
    const path = join(root, 'open.txt');
    writeFileSync(path, '2026-12-25');
    chmodSync(path, 0o666);
    expect(readDates(root, 'open.txt', false)).toEqual({
      problem: expect.stringMatching(
        /^open\.txt can be written by anybody \(mode 0666\): close it with: chmod go-w open\.txt, or allow/,
      ),
    });
    expect(readDates(root, 'open.txt', true)).toMatchObject({ last: dayOf('2026-12-25') });
  });
});

describe('a file that is read again and again', () => {
  /** Bytes that this process has read so far. */
  const readSoFar = (): number => Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);

  test('is read once, as long as it does not change', async () => {
    const root = makeTemporaryRoot({ 'holidays.txt': `2026-12-25 ${'x'.repeat(60_000)}` });
    await until('reads without the file', () => {
      const before = readSoFar();
      for (let count = 0; count < 50; count += 1) {
        expect(readDates(root, 'holidays.txt', false)).toMatchObject({ last: dayOf('2026-12-25') });
      }
      return readSoFar() - before < 60_000;
    });
    writeFileSync(join(root, 'holidays.txt'), '2026-12-26');
    expect(readDates(root, 'holidays.txt', false)).toMatchObject({ last: dayOf('2026-12-26') });
    chmodSync(join(root, 'holidays.txt'), 0o666);
    expect(readDates(root, 'holidays.txt', false)).toHaveProperty('problem');
    expect(readDates(join(root, 'jobs'), join(root, 'holidays.txt'), true)).toHaveProperty('problem');
  });
});
