import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { createStateFolder, stateFolderOf } from '../place/state-folder.ts';
import { describeServedState, findWebRoot } from '../place/web-exposure.ts';

/** One small example for each tier and one handler, of the package's own jobs. */
const EXAMPLES = [
  'jobs/15min/check-site.ts',
  'jobs/hourly/clean-temporary-files.ts',
  'jobs/daily/backup-activity-log.ts',
  'jobs/queue/post-webhook.ts',
];

/** Apache 2.4 and 2.2; nginx reads no such file. */
const DENY_ALL = `<IfModule mod_authz_core.c>
  Require all denied
</IfModule>
<IfModule !mod_authz_core.c>
  Deny from all
</IfModule>
`;

/** A path, relative to the root, that is there now. */
export interface RootEntry {
  readonly path: string;
  readonly state: 'made' | 'already there';
}

export interface StartedRoot {
  readonly entries: readonly RootEntry[];
  /** The folder around the root that a web server probably hands out. */
  readonly webRoot: string | null;
}

/**
 * Makes a root: `jobs/` with its three tiers, the handlers' folder, an example in each, and the state
 * folder. Changes and overwrites nothing.
 *
 * @param distFolder of the command that runs now: the examples are those of its package
 * @throws {UsageError} inside a web root, unless it is forced: no pass would run there
 */
export function startRoot(root: string, distFolder: string, isForced: boolean): StartedRoot {
  const webRoot = findWebRoot(root);
  if (!isForced) refuseServed(root, webRoot);
  const examples = readExamples(findPackageFolder(distFolder));
  try {
    const entries = [
      ...examples.flatMap((example) => makeTier(root, example)),
      ...makeStateFolder(root),
      ...(webRoot === null ? [] : ['jobs', '.runner'].map((folder) => denyWeb(root, folder))),
    ];
    return { entries, webRoot };
  } catch (error) {
    throw explainFailure(root, error as NodeJS.ErrnoException);
  }
}

function refuseServed(root: string, webRoot: string | null): void {
  const reason =
    webRoot === null ? describeServedState(stateFolderOf(root)) : describeServed(root, webRoot);
  if (reason !== null) throw new UsageError(reason);
}

function describeServed(root: string, webRoot: string): string {
  return (
    `${root} is inside ${webRoot}, which a web server probably serves: anybody could read your scripts and what ` +
    'they print, passwords included, and passes are refused there; choose a folder beside it, such as with: ' +
    '`runner init ~/runner`, or make it there all the same with --force'
  );
}

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

interface Example {
  readonly path: string;
  readonly content: string;
}

function readExamples(packageFolder: string): Example[] {
  return EXAMPLES.map((path) => ({
    path,
    content: readFileSync(join(packageFolder, path), 'utf8'),
  }));
}

/** A folder that holds anything is its owner's: a deleted example must not come back. */
function makeTier(root: string, { path, content }: Example): RootEntry[] {
  const tier = join(root, dirname(path));
  const state = makeFolder(tier);
  const entry: RootEntry = { path: relative(root, tier), state };
  return readdirSync(tier).length > 0 ? [entry] : [entry, writeNew(root, path, content)];
}

/** The folder ignores itself, so that nobody's own `.gitignore` needs to be changed. */
function makeStateFolder(root: string): RootEntry[] {
  const folder = stateFolderOf(root);
  const state = makeFolder(folder.path, 0o700);
  createStateFolder(folder);
  return [{ path: '.runner', state }, writeNew(root, '.runner/.gitignore', '*\n', 0o600)];
}

function denyWeb(root: string, folder: string): RootEntry {
  return writeNew(root, join(folder, '.htaccess'), DENY_ALL);
}

/** Modes are explicit: under umask 000 anybody on the host could add scripts. */
function makeFolder(path: string, mode = 0o755): RootEntry['state'] {
  const parent = dirname(path);
  // Not by `recursive`: Node never ends where a folder takes no others, as in /proc.
  if (!existsSync(parent)) makeFolder(parent);
  return unlessThere(() => mkdirSync(path, { mode }));
}

function writeNew(root: string, path: string, content: string, mode = 0o644): RootEntry {
  const write = () => writeFileSync(join(root, path), content, { flag: 'wx', mode });
  return { path, state: unlessThere(write) };
}

function unlessThere(make: () => void): RootEntry['state'] {
  try {
    make();
    return 'made';
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return 'already there';
    throw error;
  }
}

function explainFailure(root: string, error: NodeJS.ErrnoException): Error {
  if (error.path === undefined) return error;
  const reasons: Readonly<Record<string, string>> = {
    ENOTDIR: 'a file is where a folder is needed',
    EEXIST: 'a file is where a folder is needed',
    EACCES: 'your user may not write there',
    EROFS: 'the disk is read-only',
    ENOSPC: 'the disk is full',
    EDQUOT: 'your quota is used up',
  };
  const reason = reasons[error.code ?? ''] ?? error.message;
  return new UsageError(`${error.path} could not be made for the root ${root}: ${reason}.`);
}
