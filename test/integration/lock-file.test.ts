import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { expect, test } from 'vitest';

interface LockedPackage {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const lockFile = new URL('../../package-lock.json', import.meta.url);
const { packages } = JSON.parse(readFileSync(lockFile, 'utf8')) as {
  readonly packages: Readonly<Record<string, LockedPackage>>;
};

/** npm leaves out what its registry lacks; `npm ci` then fails on the machines that need it. */
test('the lock file names the optional packages of every platform', () => {
  const optional = Object.entries(packages).flatMap(([folder, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).map((name) => ({ folder, name })),
  );
  expect(optional.length).toBeGreaterThan(0);
  expect(optional.filter(({ folder, name }) => !isLocked(name, folder))).toEqual([]);
});

/** As Node looks for a package: in the folder's own node_modules, then in those of the folders above. */
function isLocked(name: string, folder: string): boolean {
  if (posix.join(folder, 'node_modules', name) in packages) return true;
  return folder !== '' && isLocked(name, posix.dirname(folder).replace(/^\.$/, ''));
}
