import { expect, test } from 'vitest';
import { drawFrame, type ScreenFrame } from '../../../src/report/terminal/frame.ts';
import { createPalette } from '../../../src/report/terminal/screen.ts';

const lines = Array.from({ length: 20 }, (_, index) => `line ${index + 1}`);
const frame: ScreenFrame = {
  tabs: [{ key: '1', name: 'status', isShown: true }],
  ...{ lines, isList: false, selected: null, top: 0, help: 'q quit', note: '' },
};
const draw = (changes: Partial<ScreenFrame>, rows = 8) =>
  drawFrame({ ...frame, ...changes }, { columns: 40, rows }, createPalette(false)).map((line) => line.trimEnd());

test('what does not fit is counted above and below, within the height of the terminal', () => {
  const four = (from: number) => lines.slice(from - 1, from + 3);
  expect(draw({})).toEqual(['[1 status]', '', ...four(1), '↓ 16 more', 'q quit']);
  expect(draw({ top: 5 })).toEqual(['[1 status]', '↑ 5 more', ...four(6), '↓ 11 more', 'q quit']);
  expect(draw({ top: 16 })).toEqual(['[1 status]', '↑ 16 more', ...four(17), '', 'q quit']);
  expect(draw({ top: 3 }, 30)).toHaveLength(30);
  expect(draw({ top: 3 }, 30)).not.toContain('↑ 3 more');
  const selected = draw({ isList: true, selected: 10 });
  expect(selected).toEqual(expect.arrayContaining(['↑ 8 more', '› line 11', '↓ 8 more']));
});
