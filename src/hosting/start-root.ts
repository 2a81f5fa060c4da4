import { describeServedState } from '../config/served-place.ts';
import { stateFolderOf } from '../config/state-folder.ts';
import { UsageError } from '../config/usage-error.ts';
import { findWebRoot } from '../config/web-root.ts';
import { makeRoot, type RootEntry } from './make-root.ts';
import { findPackageFolder } from './package-folder.ts';

export interface StartedRoot {
  readonly entries: readonly RootEntry[];
  /** The folder around the root that a web server probably hands out. */
  readonly webRoot: string | null;
}

/**
 * Makes a root with the examples of the package whose command runs now.
 *
 * @throws {UsageError} inside a web root, unless it is forced: no pass would run there
 */
export function startRoot(root: string, distFolder: string, isForced: boolean): StartedRoot {
  const packageFolder = findPackageFolder(distFolder);
  const webRoot = findWebRoot(root);
  if (!isForced) refuseServed(root, webRoot);
  return { entries: makeRoot({ root, packageFolder, isServed: webRoot !== null }), webRoot };
}

function refuseServed(root: string, webRoot: string | null): void {
  const reason =
    webRoot === null ? describeServedState(stateFolderOf(root)) : describeServed(root, webRoot);
  if (reason !== null) throw new UsageError(reason);
}

function describeServed(root: string, webRoot: string): string {
  return (
    `${root} is inside ${webRoot}, which a web server probably hands out: anybody could read your scripts and what ` +
    'they print, passwords included, and passes are refused there; choose a folder beside it, such as with: ' +
    '`runner init ~/runner`, or make it there all the same with --force'
  );
}
