import { renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createFileWatch } from '../../../src/worker/loop/queue-limits.ts';
import { makeTemporaryRoot } from '../../support/temporary-root.ts';

const changes = {
  'is touched': (path) => utimesSync(path, 1, 1),
  'gets other content': (path) => writeFileSync(path, 'other'),
  'is replaced by one of its size and time': (path) => {
    writeFileSync(`${path}.new`, 'text');
    utimesSync(`${path}.new`, 1_000, 1_000);
    renameSync(`${path}.new`, path);
  },
  'is removed': (path) => rmSync(path),
} as const satisfies Record<string, (path: string) => void>;

test.each(Object.entries(changes))('a file that %s has changed', (_, change) => {
  const root = makeTemporaryRoot({ 'one.js': 'text', 'two.js': 'text' });
  const [one, two] = [join(root, 'one.js'), join(root, 'two.js')];
  utimesSync(two, 1_000, 1_000);
  const watch = createFileWatch([one, two]);
  expect(watch.findChanged()).toBeNull();
  change(two);
  expect(watch.findChanged()).toBe(two);
});

test('a file that is made has changed; one that stays away has not', () => {
  const path = join(makeTemporaryRoot(), 'restart');
  const watch = createFileWatch([path]);
  expect(watch.findChanged()).toBeNull();
  writeFileSync(path, '');
  expect(watch.findChanged()).toBe(path);
  expect(createFileWatch([]).findChanged()).toBeNull();
});
