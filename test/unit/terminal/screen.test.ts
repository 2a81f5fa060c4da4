import { expect, test } from 'vitest';
import { createPalette, createScreen, isColoured } from '../../../src/report/terminal/screen.ts';

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
