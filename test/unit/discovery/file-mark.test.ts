import { chmodSync, renameSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isCurrent, isSettled, markOf, readHandlerIndex } from '../../../src/discovery/handlers.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** An old file, as far as that can be made: the time of its last change of any kind cannot be set back. */
function makeFile(): string {
  const path = join(makeTemporaryRoot({ file: 'one' }), 'file');
  utimesSync(path, 1, 1);
  return path;
}

/** Past the file system's own tick: within it two changes look the same. */
function awaitTick(path: string): void {
  const { ctimeMs } = statSync(path);
  while (Date.now() - ctimeMs < 50);
}

test.each<readonly [string, (path: string) => void]>([
  ['its content', (path) => writeFileSync(path, 'two, longer')],
  [
    'its content, with size and time set back',
    (path) => {
      writeFileSync(path, 'two');
      utimesSync(path, 1, 1);
    },
  ],
  ['its mode', (path) => chmodSync(path, 0o600)],
  [
    'that it was replaced by its like',
    (path) => {
      writeFileSync(`${path}.new`, 'one');
      utimesSync(`${path}.new`, 1, 1);
      renameSync(`${path}.new`, path);
    },
  ],
  ['that it is gone', (path) => renameSync(path, `${path}.gone`)],
])('the mark of a file tells %s', (_, change) => {
  const path = makeFile();
  const mark = markOf(path);
  expect(markOf(path)).toBe(mark);
  awaitTick(path);
  change(path);
  expect(markOf(path)).not.toBe(mark);
});

test('what was changed only just may change again unnoticed: it is read again', () => {
  expect(isSettled(makeFile())).toBe(false);
  expect(isSettled(process.execPath)).toBe(true);
  const root = makeTemporaryRoot({ 'jobs/queue/a.ts': '' });
  const place = { root, settings: defaultSettings, distrust: [], matches: () => false };
  const book = readHandlerIndex(place);
  expect(isCurrent(book)).toBe(false);
  expect(isCurrent({ ...book, isSettled: true })).toBe(true);
});
