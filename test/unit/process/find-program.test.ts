import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { findOwnNode, findProgram } from '../../../src/system/process/programs.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

const { execPath } = process;
const path = process.env.PATH;
afterEach(() => {
  process.execPath = execPath;
  process.env.PATH = path;
});

test('the first folder that has it executable counts', () => {
  const root = makeTemporaryRoot({
    'one/tool': 'no program',
    'two/tool': executable('#!/bin/sh\n'),
    'three/tool': executable('#!/bin/sh\n'),
  });
  const folders = ['none', 'one', 'two', 'three'].map((name) => join(root, name));
  expect(findProgram('tool', folders.join(':'))).toBe(join(root, 'two/tool'));
  expect(findProgram('other', folders.join(':'))).toBeNull();
});

test('this Node has a full path, also where it only knows its name', () => {
  expect(findOwnNode()).toBe(execPath);
  const root = makeTemporaryRoot({ 'bin/node': executable('#!/bin/sh\n') });
  process.execPath = 'node';
  process.env.PATH = join(root, 'bin');
  expect(findOwnNode()).toBe(join(root, 'bin/node'));
  process.execPath = './node';
  expect(findOwnNode()).toBe(join(process.cwd(), 'node'));
});
