import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { makeRoot, type RootEntry } from './make-root.ts';
import { findPackageFolder } from './package-folder.ts';
import { findWebRoot } from './web-root.ts';

export interface StartedRoot {
  readonly entries: readonly RootEntry[];
  /** The folder around the root that a web server probably hands out. */
  readonly webRoot: string | null;
}

/** Makes a root with the examples of the package whose command runs now. */
export function startRoot(root: string, distFolder: string): StartedRoot {
  const packageFolder = findPackageFolder(distFolder);
  const webRoot = findWebRoot(root) ?? findWebRoot(realPathOf(root));
  return { entries: makeRoot({ root, packageFolder, isServed: webRoot !== null }), webRoot };
}

/** `~/www` is often a link to `public_html`, and the root's own folder may not be there yet. */
function realPathOf(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  return join(realPathOf(dirname(path)), basename(path));
}
