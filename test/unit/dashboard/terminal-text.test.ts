import { expect, test } from 'vitest';
import { cutLine } from '../../../src/dashboard/page/output/pieces.ts';
import { TerminalText } from '../../../src/dashboard/page/output/terminal-text.ts';

function textOf(...pieces: readonly string[]): TerminalText {
  const text = new TerminalText();
  for (const piece of pieces) text.append(piece);
  return text;
}

const linesOf = (text: TerminalText) => Array.from({ length: text.count }, (_, index) => text.plain(index));

test('a line that is written over has its last state, in its colours, however the text arrives', () => {
  const whole = 'one\r\n\x1b[31m10 %\r20 %\r30 %\r\r\nend\r';
  for (let cut = 0; cut <= whole.length; cut += 1) {
    const text = textOf(whole.slice(0, cut), whole.slice(cut));
    expect(linesOf(text)).toEqual(['one', '30 %', 'end']);
    expect(text.spansOf(1)).toMatchObject([{ text: '30 %', look: 'ansi-red' }]);
    expect([0, 1, 2].map((index) => text.numberOf(index))).toEqual([1, 2, 3]);
  }
});

test('a long line is shown as several, which have one number; written over, all of them are gone', () => {
  const long = 'x'.repeat(10_000);
  const text = textOf(`${long}\nshort\n${long}`);
  expect(Array.from({ length: text.count }, (_, index) => text.numberOf(index))).toEqual([
    1,
    null,
    null,
    2,
    3,
    null,
    null,
  ]);
  expect([1, 2, 3].map((number) => text.indexOf(number))).toEqual([0, 3, 4]);
  text.append('\rover\nnext');
  expect(linesOf(text).slice(3)).toEqual(['short', 'over', 'next']);
  expect([4, 5].map((index) => text.numberOf(index))).toEqual([3, 4]);
});

test('where something is left out is known', () => {
  const text = textOf('head\n\n[… 4096 bytes left out …]\ntail\n');
  expect(text.gaps).toEqual([{ index: 2, bytes: 4096 }]);
});

test('a background has the colour that the script chose: one with a name, of 256, or of all', () => {
  const esc = '\x1b[';
  const text = textOf(`${esc}43ma${esc}0m${esc}48;5;196mb${esc}0m${esc}48;5;240mc${esc}0m${esc}48;2;9;8;7md${esc}0m`);
  expect(text.spansOf(0).map(({ background }) => background)).toEqual([
    'var(--warning)',
    'rgb(255,0,0)',
    'rgb(88,88,88)',
    'rgb(9, 8, 7)',
  ]);
});

test('a million carriage returns take no time', () => {
  const begun = performance.now();
  const text = textOf('\r'.repeat(1_000_000), `a${'\rb'.repeat(500_000)}`, '\n');
  expect(linesOf(text)).toEqual(['b']);
  expect(performance.now() - begun).toBeLessThan(2000);
});

test('an address of the web is a link from its beginning to its end, across colours and matches; no other one is', () => {
  const plain = (text: string) => ({ text, look: '', color: null, background: null });
  const [line, start] = ['go to https://example.org/a?b=1.', 'go to '.length];
  const match = { line: 0, start: start + 8, end: start + 15 };
  const pieces = cutLine([plain(line.slice(0, 10)), plain(line.slice(10))], [match]);
  expect(pieces.map(({ span }) => span.text).join('')).toBe(line);
  const linked = pieces.filter(({ href }) => href !== null);
  expect(linked.map(({ span }) => span.text).join('')).toBe('https://example.org/a?b=1');
  expect(new Set(linked.map(({ href }) => href))).toEqual(new Set(['https://example.org/a?b=1']));
  expect(pieces.filter((piece) => piece.match !== null).map(({ span }) => span.text)).toEqual(['example']);
  for (const other of ['javascript://x/%0aalert(1)', 'ftp://example.org/', 'xhttp://a/', 'http://', 'data:text/html,x'])
    expect(cutLine([plain(other)], []).filter(({ href }) => href !== null)).toEqual([]);
});
