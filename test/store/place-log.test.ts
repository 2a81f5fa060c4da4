import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { placeLog } from '../../src/store/sqlite/create.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

function noHardLinks(): never {
  throw Object.assign(new Error('operation not permitted'), { code: 'EPERM' });
}

test.each([
  ['with', undefined],
  ['without', noHardLinks],
])(
  '%s hard links, the new log gets its name, and never that of one that is there',
  (_how, link) => {
    const folder = makeTemporaryRoot();
    const [first, second, place] = ['first', 'second', 'log'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    for (const path of [first, second]) {
      writeFileSync(path, path);
      placeLog(path, place, link);
      expect(existsSync(path)).toBe(false);
    }
    expect(readFileSync(place, 'utf8')).toBe(first);
  },
);
