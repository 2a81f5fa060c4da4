import { mkdirSync, writeFileSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { readFreeMemory } from '../../../src/system/process/memory.ts';
import { findOwnNode, findProgram } from '../../../src/system/process/programs.ts';
import { countOwnProcesses } from '../../../src/worker/loop/limits.ts';
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

const MB = 1024 * 1024;
const machine = 'MemTotal:  2048000 kB\nMemFree:  10240 kB\nMemAvailable:  512000 kB\n';

/** The kernel's files of another machine. */
function makeMachine(files: Readonly<Record<string, string>>): string {
  const root = makeTemporaryRoot();
  for (const [path, content] of Object.entries({ 'proc/meminfo': machine, ...files })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return root;
}

test.for<readonly [string, Readonly<Record<string, string>>, number]>([
  ['no control groups', {}, 500 * MB],
  [
    'version 2, with a limit on the way up',
    {
      'proc/self/cgroup': '0::/user/site\n',
      'sys/fs/cgroup/user/site/memory.max': 'max\n',
      'sys/fs/cgroup/user/site/memory.current': `${90 * MB}\n`,
      'sys/fs/cgroup/user/memory.max': `${200 * MB}\n`,
      'sys/fs/cgroup/user/memory.current': `${150 * MB}\n`,
      'sys/fs/cgroup/user/memory.stat': `anon 1\ninactive_file ${30 * MB}\nactive_file 5\n`,
    },
    80 * MB,
  ],
  [
    'version 1',
    {
      'proc/self/cgroup': '9:cpu,cpuacct:/\n4:memory:/site\n',
      'sys/fs/cgroup/memory/site/memory.limit_in_bytes': `${300 * MB}\n`,
      'sys/fs/cgroup/memory/site/memory.usage_in_bytes': `${100 * MB}\n`,
      'sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
      'sys/fs/cgroup/memory/memory.usage_in_bytes': `${900 * MB}\n`,
    },
    200 * MB,
  ],
  [
    'more used than allowed',
    {
      'proc/self/cgroup': '0::/\n',
      'sys/fs/cgroup/memory.max': `${10 * MB}\n`,
      'sys/fs/cgroup/memory.current': `${12 * MB}\n`,
    },
    0,
  ],
])('free is what is left where there is least: %s', ([, files, bytes]) => {
  expect(readFreeMemory(makeMachine(files))).toBe(bytes);
});

test('nothing is known where there is no /proc', () => {
  expect(readFreeMemory(makeTemporaryRoot())).toBeNull();
});

test('this machine has some memory left, and runs this process', () => {
  expect(readFreeMemory()).toBeGreaterThan(MB);
  expect(readFreeMemory()).toBeLessThanOrEqual(Math.max(freemem() * 1.5, totalmem()));
  expect(countOwnProcesses()).toBeGreaterThan(0);
});
