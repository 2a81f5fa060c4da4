import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../support/site.ts';

interface LockedPackage {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly integrity?: string;
}

type Packages = Readonly<Record<string, LockedPackage>>;

function readLocked(file: string): Packages {
  return (JSON.parse(readFileSync(join(repository, file), 'utf8')) as { packages: Packages }).packages;
}

const lockFiles = ['package-lock.json', 'bench/peers/package-lock.json'];

/** npm leaves out what its registry lacks; `npm ci` then fails on the machines that need it. */
test.each(lockFiles)('%s names the optional packages of every platform', (file) => {
  const packages = readLocked(file);
  const optional = Object.entries(packages).flatMap(([folder, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).map((name) => ({ folder, name })),
  );
  expect(optional.length).toBeGreaterThan(0);
  expect(optional.filter(({ folder, name }) => !isLocked(packages, name, folder))).toEqual([]);
});

/** What was added to the file by hand would be installed whatever it is. */
test.each(lockFiles)('%s says what each package has to be', (file) => {
  const unchecked = Object.entries(readLocked(file)).filter(
    ([folder, { integrity }]) => folder !== '' && integrity === undefined,
  );
  expect(unchecked).toEqual([]);
});

/** As Node looks for a package: in the folder's own node_modules, then in those of the folders above. */
function isLocked(packages: Packages, name: string, folder: string): boolean {
  if (posix.join(folder, 'node_modules', name) in packages) return true;
  return folder !== '' && isLocked(packages, name, posix.dirname(folder).replace(/^\.$/, ''));
}
