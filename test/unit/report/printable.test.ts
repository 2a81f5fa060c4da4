import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  firstLine,
  lastLine,
  plainText,
  printable,
  printableLine,
  toPrintableLines,
} from '../../../src/system/base/text.ts';

/** Everything that a terminal could act on. */
const dangerous =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

describe('printable', () => {
  test('removes colours, cursor moves, titles and links', () => {
    expect(printable('\x1b[31mred\x1b[0m')).toBe('red');
    expect(printable('\x1b[2J\x1b[1;1Hgone')).toBe('gone');
    expect(printable('\x1b]0;a title\x07text')).toBe('text');
    expect(printable('\x1b]8;;https://evil.example\x07link\x1b]8;;\x07')).toBe('link');
  });

  test('keeps the lines after a title that never ends', () => {
    expect(printable('\x1b]0;a title\nERROR\nmore\x07')).toBe('␛]0;a title\nERROR\nmore␇');
  });

  test('makes what is left of them visible', () => {
    expect(printable('bell\x07 null\0 escape\x1b')).toBe('bell␇ null␀ escape␛');
    expect(printable('\x7f\x85')).toBe('␡<U+0085>');
  });

  test('makes characters visible that reverse, hide or break text', () => {
    expect(printable('invoice\u202egpj.exe')).toBe('invoice<U+202E>gpj.exe');
    expect(printable('a\u2028b\ufeffc\u2066d')).toBe('a<U+2028>b<U+FEFF>c<U+2066>d');
    expect(printable('half \ud800')).toBe('half <U+D800>');
  });

  test('keeps lines, tabs and every script of the world', () => {
    const text = 'col\tcol\nzwei größer 日本語 👩‍👩‍👧 ܫܠܡܐ';
    expect(printable(text)).toBe(text);
  });

  test('shows a line end of Windows as a line end, and a lone carriage return', () => {
    expect(printable('one\r\n10%\r20%')).toBe('one\n10%␍20%');
  });

  test('leaves nothing that a terminal acts on, whatever comes in', () => {
    const text = fc.string({ unit: 'binary' });
    fc.assert(fc.property(text, (any) => !dangerous.test(printable(any))));
    fc.assert(fc.property(text, (any) => !/[\n\t]/.test(printableLine(any))));
  });
});

describe('text that is looked through', () => {
  test('lacks what is removed or made visible where it is shown', () => {
    expect(plainText('\x1b[31mERROR\x1b[0m\x0f: \x07\u200bdisk\tfull\n')).toBe('ERROR: disk\tfull\n');
  });

  test('begins a line where a terminal begins one anew', () => {
    expect(plainText('one\r\n10%\r20%\x1b[2K\x1b[G30%\0end')).toBe('one\r\n10%\r20%\r30%\rend');
  });
});

describe('one line', () => {
  test('shows line feeds and tabs of a name', () => {
    expect(printableLine('hourly/a\nb\tc')).toBe('hourly/a␊b␉c');
  });

  test('is the first or last that says something', () => {
    expect(firstLine('\n  \nboom\nmore')).toBe('boom');
    expect(lastLine('start\n\x1b[31mno space\x1b[0m\n\n')).toBe('no space');
    expect(lastLine('')).toBe('');
  });
});

describe('pieces of output', () => {
  test('are safe wherever they were cut', async () => {
    const text = 'a\x1b[31mred\x1b[0m b\r\nc\x1b]0;title\x07d\n';
    for (let cut = 0; cut <= text.length; cut++) {
      let shown = '';
      for await (const piece of toPrintableLines([text.slice(0, cut), text.slice(cut)])) {
        shown += piece;
      }
      expect(shown).toBe('ared b\ncd\n');
    }
  });

  test('are handed on before their line ends', async () => {
    const shown = toPrintableLines(['working ', '.\n']);
    expect((await shown.next()).value).toBe('working ');
  });

  test('that begin a sequence without end do not pile up', async () => {
    const endless = Array.from({ length: 100 }, () => `\x1b${'x'.repeat(1000)}`);
    let longest = 0;
    for await (const piece of toPrintableLines(endless)) longest = Math.max(longest, piece.length);
    expect(longest).toBeLessThan(10_000);
  });
});

test('a line takes no longer for its length: a program may print all its data as one', () => {
  const line = 'x'.repeat(2_000_000);
  const from = performance.now();
  expect(printable(`${line}\n${line}\u001b[31m`)).toBe(`${line}\n${line}`);
  expect(performance.now() - from).toBeLessThan(5_000);
});
