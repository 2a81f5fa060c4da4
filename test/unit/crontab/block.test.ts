import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  crontabBlock,
  installBlock,
  readBlock,
  readChosenTiers,
  removeBlock,
} from '../../../src/hosting/crontab/block.ts';
import { UsageError } from '../../../src/system/base/errors.ts';

const ROOT = '/home/mé/site';
const LINES = ['7 * * * * node bin.cjs hourly', '9 3 * * * node bin.cjs daily'];
const contentOf = (lines: readonly string[], chosenTiers?: string) => ({ lines, chosenTiers });
const CONTENT = contentOf(LINES);
const BLOCK = crontabBlock(ROOT, CONTENT);

const install = (text: string, lines = LINES, root = ROOT): string =>
  installBlock(Buffer.from(text), root, contentOf(lines)).toString();
const remove = (text: string, root = ROOT): string => removeBlock(Buffer.from(text), root).toString();

/** Somebody's crontab: any bytes at all, of which the last is a newline. */
const crontabs = fc
  .array(fc.uint8Array({ maxLength: 12 }))
  .map((lines) => Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')])));

test('installing again changes not a byte', () => {
  fc.assert(
    fc.property(crontabs, (crontab) => {
      const once = installBlock(crontab, ROOT, CONTENT);
      expect(installBlock(once, ROOT, CONTENT)).toEqual(once);
    }),
  );
});

test('removing gives back the bytes from before, whatever their encoding', () => {
  fc.assert(
    fc.property(crontabs, (crontab) => {
      expect(removeBlock(installBlock(crontab, ROOT, CONTENT), ROOT)).toEqual(crontab);
    }),
  );
});

test('removing where there is no block changes not a byte', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(removeBlock(Buffer.from(bytes), ROOT)).toEqual(Buffer.from(bytes));
    }),
  );
});

test('new lines take the place of the old ones, and what stands around them stays', () => {
  const before = `# mine\r\n1 1 * * * a\r\n${BLOCK}\n  2 2 * * * b % x`;
  const lines = ['8 * * * * other'];
  expect(install(before, lines)).toBe(
    `# mine\r\n1 1 * * * a\r\n${crontabBlock(ROOT, contentOf(lines))}\n  2 2 * * * b % x\n`,
  );
});

test('a last line without its newline gets one, or the marker would become part of it', () => {
  expect(install('0 1 * * * backup')).toBe(`0 1 * * * backup\n${BLOCK}`);
  expect(install('0 1 * * * backup\r\n')).toBe(`0 1 * * * backup\r\n${BLOCK}`);
});

test('a block that an editor gave CRLF ends, or left without its last newline, is still found', () => {
  expect(remove(`a\r\n${BLOCK.replaceAll('\n', '\r\n')}b\r\n`)).toBe('a\r\nb\r\n');
  expect(remove(`a\n${BLOCK.trimEnd()}`)).toBe('a\n');
});

test('the block of another root is left alone, also of one whose path begins alike', () => {
  const other = crontabBlock(`${ROOT}2`, CONTENT);
  expect(install(other)).toBe(`${other}${BLOCK}`);
  expect(remove(`${other}${BLOCK}`)).toBe(other);
});

test('of two blocks of one root only the first remains', () => {
  expect(install(`a\n${BLOCK}b\n${BLOCK}c\n`)).toBe(`a\n${BLOCK}b\nc\n`);
});

test('what somebody has put into the block is read with its lines, and which tiers were chosen', () => {
  const lines = ['MAILTO=me', '# mine', ...LINES];
  const block = Buffer.from(`a\n${crontabBlock(ROOT, contentOf(lines, 'hourly,daily'))}b\n`);
  expect(readBlock(block, ROOT)).toEqual(lines);
  expect(readChosenTiers(block, ROOT)).toBe('hourly,daily');
  expect(readChosenTiers(Buffer.from(BLOCK), ROOT)).toBeUndefined();
});

describe('a damaged block is refused, as guessing its end could take out other lines', () => {
  const [begin = '', end = ''] = BLOCK.split('\n').filter((line) => /BEGIN|END/.test(line));
  test.each([
    ['its end is missing', `${begin}\n0 1 * * * mine\n`],
    ['its beginning is missing', `0 1 * * * mine\n${end}\n`],
    ['it begins twice', `${begin}\n${begin}\n${end}\n`],
  ])('%s', (_, text) => {
    expect(() => install(text)).toThrow(UsageError);
    expect(() => remove(text)).toThrow(/nothing was changed: .*`crontab -e`/);
  });
});
