import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseShebang } from '../../../src/discovery/script-file.ts';

test.each([
  ['#!/bin/sh', '/bin/sh', null],
  ['#!/bin/sh\necho', '/bin/sh', null],
  ['#! \t/bin/sh \t-e  \n', '/bin/sh', '-e'],
  ['#!/usr/bin/env node', '/usr/bin/env', 'node'],
  ['#!/usr/bin/env -S node  --x y', '/usr/bin/env', '-S node  --x y'],
  ['#!/usr/bin/perl\t-w\n#!/bin/sh', '/usr/bin/perl', '-w'],
  ['#!\n/bin/sh', '', null],
  ['#!', '', null],
  ['#! \r\n', '', null],
])('%j is run by %j with the argument %j', (source, interpreter, argument) => {
  expect(parseShebang(source)).toMatchObject({ interpreter, argument });
});

test.each(['', 'echo', ' #!/bin/sh', '\n#!/bin/sh', '# !/bin/sh'])('%j has none', (source) => {
  expect(parseShebang(source)).toBeNull();
});

test('a carriage return at its end is noticed', () => {
  expect(parseShebang('#!/bin/sh -e\r\n')).toMatchObject({ argument: '-e', endsInCarriageReturn: true });
  expect(parseShebang('#!/bin/sh\necho\r\n')?.endsInCarriageReturn).toBe(false);
});

test('interpreter and argument are taken apart for any of them', () => {
  const path = fc.stringMatching(/^\/[!-~]{1,40}$/);
  const argument = fc.stringMatching(/^[!-~]([ -~]{0,40}[!-~])?$/);
  const gap = fc.stringMatching(/^[ \t]{1,3}$/);
  fc.assert(
    fc.property(path, fc.option(argument), gap, (interpreter, given, space) => {
      const line = given === null ? `#!${interpreter}` : `#!${interpreter}${space}${given}`;
      expect(parseShebang(`${line}${space}\n`)).toMatchObject({ interpreter, argument: given });
    }),
  );
});
