import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder of this package, upward from its `dist/` or any other folder in it. */
export function findPackageFolder(folder: string): string {
  if (packageName(folder) === 'folder-runner') return folder;
  const parent = dirname(folder);
  if (parent === folder) throw new Error('The command was started from outside its own package.');
  return findPackageFolder(parent);
}

function packageName(folder: string): unknown {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).name;
  } catch {
    return undefined;
  }
}
