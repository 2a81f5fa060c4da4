import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { createStateFolder, stateFolderOf } from '../config/state-folder.ts';
import { UsageError } from '../config/usage-error.ts';

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

export interface RootRequest {
  readonly root: string;
  readonly packageFolder: string;
  /** Whether a web server probably hands out what is in the root. */
  readonly isServed: boolean;
}

/** A path, relative to the root, that is there now. */
export interface RootEntry {
  readonly path: string;
  readonly state: 'made' | 'already there';
}

/** Makes `jobs/` with its three tiers and the handlers' folder, and the state folder; changes and overwrites nothing. */
export function makeRoot(request: RootRequest): RootEntry[] {
  try {
    return [
      ...EXAMPLES.flatMap((example) => makeTier(request, example)),
      ...makeStateFolder(request.root),
      ...(request.isServed ? ['jobs', '.runner'].map((folder) => denyWeb(request, folder)) : []),
    ];
  } catch (error) {
    throw unmakeable(request.root, error as NodeJS.ErrnoException);
  }
}

/** A folder that holds anything is its owner's: a deleted example must not come back. */
function makeTier({ root, packageFolder }: RootRequest, example: string): RootEntry[] {
  const tier = join(root, dirname(example));
  const state = makeFolder(tier);
  const entry: RootEntry = { path: relative(root, tier), state };
  if (readdirSync(tier).length > 0) return [entry];
  return [entry, writeNew(root, example, readFileSync(join(packageFolder, example), 'utf8'))];
}

/** The folder ignores itself, so that nobody's own `.gitignore` needs to be changed. */
function makeStateFolder(root: string): RootEntry[] {
  const folder = stateFolderOf(root);
  const state = makeFolder(folder.path, 0o700);
  createStateFolder(folder);
  return [{ path: '.runner', state }, writeNew(root, '.runner/.gitignore', '*\n', 0o600)];
}

function denyWeb({ root }: RootRequest, folder: string): RootEntry {
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

function unmakeable(root: string, error: NodeJS.ErrnoException): Error {
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
