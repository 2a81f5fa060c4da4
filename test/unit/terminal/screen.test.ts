import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { drawFrame, type ScreenFrame } from '../../../src/report/terminal/frame.ts';
import { createPalette, createScreen, isColoured } from '../../../src/report/terminal/screen.ts';
import {
  type Column,
  fitColumns,
  joinFitting,
  renderTable,
  truncate,
  truncateMiddle,
  widthOf,
  wrap,
} from '../../../src/report/terminal/table.ts';

const lines = Array.from({ length: 20 }, (_, index) => `line ${index + 1}`);
const frame: ScreenFrame = {
  tabs: [{ key: '1', name: 'status', isShown: true }],
  ...{ lines, isList: false, selected: null, top: 0, help: 'q quit', note: '' },
};
const draw = (changes: Partial<ScreenFrame>, rows = 8) =>
  drawFrame({ ...frame, ...changes }, { columns: 40, rows }, createPalette(false)).map((line) => line.trimEnd());

test('lines that do not fit are counted above and below, within the height of the terminal', () => {
  const four = (from: number) => lines.slice(from - 1, from + 3);
  expect(draw({})).toEqual(['[1 status]', '', ...four(1), '↓ 16 more', 'q quit']);
  expect(draw({ top: 5 })).toEqual(['[1 status]', '↑ 5 more', ...four(6), '↓ 11 more', 'q quit']);
  expect(draw({ top: 16 })).toEqual(['[1 status]', '↑ 16 more', ...four(17), '', 'q quit']);
  expect(draw({ top: 3 }, 30)).toHaveLength(30);
  expect(draw({ top: 3 }, 30)).not.toContain('↑ 3 more');
  const selected = draw({ isList: true, selected: 10 });
  expect(selected).toEqual(expect.arrayContaining(['↑ 8 more', '› line 11', '↓ 8 more']));
});

test.each([
  [{}, true, true],
  [{}, false, false],
  [{ NO_COLOR: '1' }, true, false],
  [{ NO_COLOR: '' }, true, true],
  [{ NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
  [{ FORCE_COLOR: '1' }, false, true],
  [{ FORCE_COLOR: '0' }, true, false],
  [{ TERM: 'dumb' }, true, false],
])('with %j, on a terminal: %j, colours are %j', (env, isTerminal, expected) => {
  expect(isColoured(env, isTerminal)).toBe(expected);
});

test('a palette paints whatever the process itself is connected to, or not at all', () => {
  expect(createPalette(true).bad('x')).toBe('\x1b[31mx\x1b[39m');
  expect(createPalette(false).bad('x')).toBe('x');
});

test.each([
  [{ isTTY: true, columns: 93 }, {}, {}, 93],
  [{}, { columns: 70 }, {}, 70],
  [{}, {}, { COLUMNS: '200' }, 200],
  [{}, {}, { COLUMNS: 'wide' }, 120],
  [{ isTTY: true, columns: 8 }, {}, {}, 40],
  [{ isTTY: true, columns: 0 }, {}, {}, 120],
])('%j and %j and %j make %j columns', (stdout, stderr, env, columns) => {
  expect(createScreen({ stdout, stderr, env, now: () => 0 }).columns).toBe(columns);
});

interface Row {
  readonly name: string;
  readonly size: string;
}

const rows: readonly Row[] = [
  { name: 'a-rather-long-name', size: '9' },
  { name: 'b', size: '12345' },
];
const columns: readonly Column<Row>[] = [
  { title: 'name', text: (row) => row.name, shrinks: { first: 10, last: 5 } },
  { title: 'size', text: (row) => row.size, align: 'right', rank: 2 },
  { title: 'again', text: (row) => row.size, rank: 1 },
];

function drawTable(width: number): string[] {
  const plain = { palette: createPalette(false), indent: '' };
  return renderTable(fitColumns(columns, rows, width), rows, plain);
}

describe('a table', () => {
  test('shows everything where there is room', () => {
    expect(drawTable(80)).toEqual([
      'name                 size  again',
      'a-rather-long-name      9  9',
      'b                   12345  12345',
    ]);
  });

  test('shortens, then drops the lowest rank, then gives the room back', () => {
    expect(drawTable(28)).toEqual([
      'name             size  again',
      'a-rather-long…      9  9',
      'b               12345  12345',
    ]);
    expect(drawTable(20)).toEqual(['name            size', 'a-rather-lon…      9', 'b              12345']);
    expect(drawTable(9)).toEqual(['name', 'a-rather…', 'b']);
  });

  test('is never wider than there is room, whatever is in it', () => {
    const hostile = [...rows, { name: '日本語👩‍👩‍👧'.repeat(9), size: '%s $& \\1' }];
    for (let width = 5; width < 90; width++) {
      const plain = { palette: createPalette(false), indent: '' };
      const lines = renderTable(fitColumns(columns, hostile, width), hostile, plain);
      for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(width);
    }
  });

  test('holds as many rows as a log has', () => {
    const many = Array.from({ length: 50_000 }, () => ({ name: 'n', size: '1' }));
    expect(fitColumns(columns, many, 80).map((column) => column.width)).toEqual([4, 4, 5]);
  });
});

describe('text that does not fit', () => {
  test('ends in an ellipsis and never in half a character', () => {
    expect(truncate('hello world', 8)).toBe('hello w…');
    expect(truncate('日本語', 4)).toBe('日…');
    expect(truncate('👩‍👩‍👧👩‍👩‍👧', 3)).toBe('👩‍👩‍👧…');
    expect(truncate('fits', 4)).toBe('fits');
  });

  test('is as wide as a terminal shows it', () => {
    expect(widthOf('注\u200d\u200d')).toBe(2);
    expect(widthOf('ทำงาน')).toBe(5);
    expect(widthOf('বাংলা')).toBe(5);
    expect(widthOf('👩‍👩‍👧🇩🇪한글e\u0301')).toBe(9);
  });

  const letters = fc.constantFrom(
    ...'ab/-. отчёт注文書ñ–‘’שלום한글ไทยทำéé👩‍👩‍👧🇩🇪\u0301…'.split(''),
    '👩‍👩‍👧',
    '🇩🇪',
    '注',
  );
  const mixed = fc.string({ unit: letters, maxLength: 40 });

  test('is cut to at most its room, whatever letters it mixes', () => {
    const cut = fc.property(mixed, fc.integer({ min: 3, max: 40 }), (text, room) => {
      for (const each of [truncate(text, room), truncateMiddle(text, room), ...wrap(text, room)]) {
        // A character that is wider than the room stands alone: Thai vowels join the flag before them.
        if ([...new Intl.Segmenter().segment(each)].length > 1) expect(widthOf(each), each).toBeLessThanOrEqual(room);
      }
      expect(wrap(text, room).join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''));
    });
    fc.assert(cut, { numRuns: 2_000, examples: [['🇩🇪ำำ', 3]] });
    expect(truncateMiddle('hourly/отчёт-по-заказам-интернет-магазина', 20)).toBe('hourly/отч…-магазина');
    expect(truncate('failure: env: ‘nosuchcmd’: No such file', 20)).toBe('failure: env: ‘nosu…');
  });

  test('is broken in a time that grows with its length: a program may print all its data as one word', () => {
    const cost = (lines: number): number => {
      const from = process.cpuUsage().user;
      expect(wrap('x'.repeat(lines * 100), 100)).toEqual(Array(lines).fill('x'.repeat(100)));
      return process.cpuUsage().user - from;
    };
    cost(50);
    const tenTimes = Array.from({ length: 10 }, () => cost(1_000)).reduce((sum, each) => sum + each);
    expect(cost(10_000)).toBeLessThan(4 * tenTimes);
  });

  test('is broken between its parts', () => {
    expect(joinFitting(['one', 'two', 'three'], 10)).toEqual(['one · two', 'three']);
    expect(joinFitting([], 10)).toEqual([]);
  });
});
