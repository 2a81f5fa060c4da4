import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CommentStyle, readCommentBlocks } from '../../../src/discovery/tags.ts';

/** `line:text` of each line, a list for each block. */
function read(source: string, style: CommentStyle): readonly string[][] {
  return readCommentBlocks(source, style).map((block) => block.map(({ line, text }) => `${line}:${text}`));
}

test('a block comment loses its stars', () => {
  expect(read('#!/usr/bin/env node\n/**\n * one\n *two\n\n   three\n */\ncode();', 'slashes')).toEqual([
    ['2:', '3:one', '4:two', '5:', '6:three', '7:'],
  ]);
});

test.each([
  ['/** one */', '1:one'],
  ['/* one */ code();', '1:one'],
  ['/*one*/', '1:one'],
  ['/**/', '1:'],
  ['// one', '1:one'],
  ['///one', '1:one'],
  ['\ufeff// one', '1:one'],
])('%j is one line', (source, line) => {
  expect(read(source, 'slashes')).toEqual([[line]]);
});

test('a run of // lines ends with the first line that is none', () => {
  expect(read('// one\n//\n// two\ncode();\n// three', 'slashes')).toEqual([['1:one', '2:', '3:two'], ['5:three']]);
});

test('code before the first comment does not matter', () => {
  expect(read("'use strict';\nimport x from 'y';\n\n/** one */", 'slashes')).toEqual([['4:one']]);
});

test('further blocks are read, with code between them as well', () => {
  expect(read('/* one */\n\n// two\n\n/* three */\ncode();\n// four', 'slashes')).toEqual([
    ['1:one'],
    ['3:two'],
    ['5:three'],
    ['7:four'],
  ]);
});

test('a # in front of a line is a comment in shells, not in JavaScript', () => {
  expect(read('#!/bin/sh\n# one\n## two\nset -e # three', 'hashes')).toEqual([['2:one', '3:two']]);
  expect(read('# one\n/* two */', 'slashes')).toEqual([['2:two']]);
  expect(read('/* one */\n# two', 'hashes')).toEqual([['2:two']]);
});

test.each([
  ['<?php\n/**\n * one\n */', ['2:', '3:one', '4:']],
  ['<?php // one\ncode();', ['1:one']],
  ['#!/usr/bin/php\n<?php\n# one', ['3:one']],
  ['<?php /* one */ ?>', ['1:one']],
  ['<?php\n#[Attribute]\n# one', ['3:one']],
])('PHP comments begin after the tag that opens PHP: %j', (source, block) => {
  expect(read(source, 'php')).toEqual([block]);
});

test('Windows line ends are no part of the text', () => {
  expect(read('/**\r\n * one\r\n */\r\n', 'slashes')).toEqual([['1:', '2:one', '3:']]);
});

test('a comment that is never closed goes on to the end', () => {
  expect(read('/* one\ntwo', 'slashes')).toEqual([['1:one', '2:two']]);
});

test('a source of nothing but comments is read in linear time', () => {
  const started = performance.now();
  expect(readCommentBlocks('/**/\n'.repeat(13_000), 'slashes')).toHaveLength(13_000);
  expect(performance.now() - started).toBeLessThan(2000);
});

test('any source is read without an error, and lines keep their numbers', () => {
  const styles = fc.constantFrom<CommentStyle>('slashes', 'hashes', 'php');
  const piece = fc.constantFrom(
    '/*',
    '*/',
    '//',
    '#',
    '#!',
    '<?php',
    '\n',
    '\r\n',
    '@timeout',
    ' ',
    '*',
    'x',
    '\ufeff',
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string())), styles, (pieces, style) => {
      const source = pieces.join('');
      const lines = readCommentBlocks(source, style).flat();
      const numbers = lines.map(({ line }) => line);
      expect(numbers).toEqual([...new Set(numbers)].toSorted((one, other) => one - other));
      expect(lines.every(({ line, text }) => source.split('\n')[line - 1]?.includes(text))).toBe(true);
    }),
  );
});
