import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { DISABLED } from '../../discovery/not-run.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { openStore } from '../../store/open.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { type Fault, UsageError } from '../../system/base/errors.ts';
import { readIfThere, shellWord } from '../../system/base/values.ts';
import { findUnshared } from '../../system/place/root.ts';
import { createStateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import { describeServedState, findWebRoot } from '../../system/place/web-exposure.ts';
import { type CommandContext, enterSite } from '../shared/context.ts';
import { reasonOfSystem } from '../shared/system-error.ts';
import type { Given } from '../table.ts';

const NEXT_STEPS = `
Next:
  1. Drop a script into jobs/15min, jobs/hourly or jobs/daily.
  2. npx folder-runner hourly            runs a tier, as cron will
  3. npx folder-runner report            shows what ran
  4. npx folder-runner cron --install    lets cron run the tiers
     npx folder-runner cron --print      or prints the lines, to paste them
`;

const DIGEST_STEPS = `
The report goes to the mail channels of the settings, or to
RUNNER_ALERTS=mail:me@example.org in the crontab.
Run \`npx folder-runner cron --install\` again so that cron calls jobs/weekly.
`;

/** `runner init`: a root to start from. */
export async function init(context: CommandContext, options: Given<'init'>): Promise<void> {
  const { force, digest } = options;
  const root = resolve(context.cwd, options.folder ?? options.root ?? (context.env.RUNNER_ROOT || '.'));
  enterSite(context, root, options.asRoot === true);
  const { entries, webRoot } = startRoot(root, context.distFolder, force === true, digest);
  context.stdout.write(`${root}\n${entries.map(entryLine).join('')}`);
  await startLog(context, root);
  if (hasNewSiteCheck(entries)) context.stdout.write(SITE_CHECK_STEPS);
  if (digest) context.stdout.write(DIGEST_STEPS);
  if (webRoot !== null) context.stderr.write(webRootWarning(root, webRoot));
  if (!isIgnored(root))
    context.stderr.write('Note: .gitignore does not name .env: a repository would get its passwords.\n');
  const unshared = isOnServer(context.env) ? null : findUnshared(root);
  if (unshared !== null) context.stderr.write(`Note: ${unshared.fault}. ${unshared.cure}\n`);
  context.stdout.write(NEXT_STEPS);
}

/**
 * Creates the log, so that a site's first job finds its table before any pass has run. Other commands create it when
 * they need it.
 */
async function startLog({ env, stdout, stderr }: CommandContext, root: string): Promise<void> {
  const state = stateFolderOf(root);
  if (isBehindLink(root, '.runner') || findWebRoot(root) !== null) return;
  const place = isOnServer(env) ? 'tables on the database server' : relative(root, state.database);
  const isThere = !isOnServer(env) && existsSync(state.database);
  try {
    await (await openStore(state)).close();
    stdout.write(entryLine({ path: place, state: isThere ? 'already there' : 'created' }));
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    stderr.write(`Note: the activity log could not be created; the first pass tries again. ${error.message}\n`);
  }
}

function entryLine({ path, state }: RootEntry): string {
  return `  ${state.padEnd(13)}  ${path}\n`;
}

/** Whether a repository in the root leaves the passwords of the scripts out. */
function isIgnored(root: string): boolean {
  return /^(?:\*\*)?\/?\.env\*?$/m.test(readIfThere(join(root, '.gitignore')));
}

function hasNewSiteCheck(entries: readonly RootEntry[]): boolean {
  return entries.some(({ path, state }) => path === SITE_CHECK && state === 'created');
}

function webRootWarning(root: string, webRoot: string): string {
  return (
    `\nDanger: ${root} is inside ${webRoot}, which a web server probably serves: anybody could ` +
    'read your scripts in jobs/ and their output in .runner/, passwords included. Passes are refused ' +
    `until you move the root beside ${webRoot}, or set allowUnsafe: true in runner.config.*; .htaccess ` +
    'files in both folders refuse visitors, which Apache and LiteSpeed obey and nginx does not.\n'
  );
}

/** Disabled, because without a URL it would only warn that it checks nothing. */
const SITE_CHECK = `jobs/15min/check-site.ts${DISABLED}`;

const SITE_CHECK_STEPS = `
The check of your site is disabled. Set CHECK_URL, as the top of its file says,
then: npx folder-runner enable 15min/check-site
`;

/** One small example for each tier and one handler, of the package's own jobs; those that run need no settings. */
const EXAMPLE_FILES = [
  SITE_CHECK,
  'jobs/hourly/disk-use.ts',
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
interface RootEntry {
  readonly path: string;
  readonly state: 'created' | 'already there' | typeof BEHIND_LINK;
}

/** Nothing was made there. */
const BEHIND_LINK = 'behind a link';

interface StartedRoot {
  readonly entries: readonly RootEntry[];
  /** The folder around the root that a web server probably hands out. */
  readonly webRoot: string | null;
}

/**
 * Makes a root: `jobs/` with its three tiers, the handlers' folder, an example in each, and the state
 * folder. Changes and overwrites nothing.
 *
 * @param distFolder of the command that runs now: the examples are those of its package
 * @param withDigest whether a script of jobs/weekly sends a report by mail
 * @throws {UsageError} inside a web root, unless it is forced: no pass would run there
 */
export function startRoot(root: string, distFolder: string, isForced: boolean, withDigest = false): StartedRoot {
  const webRoot = findWebRoot(root);
  if (!isForced) refuseServed(root, webRoot);
  const examples = readExamples(findPackageFolder(distFolder));
  try {
    const entries = [
      ...examples.flatMap((example) => makeTier(root, example)),
      ...(withDigest ? makeDigest(root, distFolder) : []),
      makeStateFolder(root),
      writeNew(root, '.gitignore', '# Passwords of the scripts\n/.env\n'),
      ...(webRoot === null ? [] : ['jobs', '.runner'].map((folder) => denyWeb(root, folder))),
    ];
    return { entries, webRoot };
  } catch (error) {
    throw explainFailure(root, error as NodeJS.ErrnoException);
  }
}

function refuseServed(root: string, webRoot: string | null): void {
  const fault = webRoot === null ? describeServedState(stateFolderOf(root)) : describeServed(root, webRoot);
  if (fault !== null) throw new UsageError([fault]);
}

function describeServed(root: string, webRoot: string): Fault {
  return {
    found:
      `${root} is inside ${webRoot}, which a web server probably serves: anybody could read your scripts and ` +
      'their output, passwords included, and passes are refused there',
    cure:
      'choose a folder beside it, such as with: `npx folder-runner init ~/runner`, or make it there all the same ' +
      'with --force',
  };
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
  return EXAMPLE_FILES.map((path) => ({
    path,
    content: readFileSync(join(packageFolder, path.replace(DISABLED, '')), 'utf8'),
  }));
}

/** A folder that holds anything is its owner's: a deleted example must not come back. */
function makeTier(root: string, { path, content }: Example): RootEntry[] {
  const tier = join(root, dirname(path));
  if (isBehindLink(root, dirname(path))) return [{ path: dirname(path), state: BEHIND_LINK }];
  const entry: RootEntry = { path: dirname(path), state: makeFolder(tier) };
  return readdirSync(tier).length > 0 ? [entry] : [entry, writeNew(root, path, content)];
}

const DIGEST = 'jobs/weekly/report-by-mail.sh';

/** Asked for by name: it is made beside what else is there. */
function makeDigest(root: string, distFolder: string): RootEntry[] {
  if (isBehindLink(root, dirname(DIGEST))) return [{ path: dirname(DIGEST), state: BEHIND_LINK }];
  const entry: RootEntry = { path: dirname(DIGEST), state: makeFolder(join(root, dirname(DIGEST))) };
  const script = `#!/bin/sh
# @description Sends a report of the week by mail.
# @env RUNNER_ALERTS SMTP_URL
# @timeout 5m
exec node ${commandFromRoot(root, join(distFolder, 'bin.cjs'))} report --mail
`;
  return [entry, writeNew(root, DIGEST, script)];
}

/** Within the root it moves with it. */
function commandFromRoot(root: string, commandPath: string): string {
  const path = relative(realpathSync(root), commandPath);
  return path.startsWith('..') ? shellWord(commandPath) : `"$RUNNER_ROOT"/${shellWord(path)}`;
}

function makeStateFolder(root: string): RootEntry {
  const path = '.runner';
  if (isBehindLink(root, path)) return { path, state: BEHIND_LINK };
  const state = existsSync(join(root, path)) ? 'already there' : 'created';
  createStateFolder(stateFolderOf(root));
  return { path, state };
}

function denyWeb(root: string, folder: string): RootEntry {
  return writeNew(root, join(folder, '.htaccess'), DENY_ALL);
}

/** Modes are explicit: under umask 000 anybody on the host could add scripts. */
function makeFolder(path: string): RootEntry['state'] {
  const parent = dirname(path);
  // Not by `recursive`: Node never ends where a folder takes no others, as in /proc.
  if (!existsSync(parent)) makeFolder(parent);
  return unlessThere(() => mkdirSync(path, { mode: 0o755 }));
}

function writeNew(root: string, path: string, content: string): RootEntry {
  if (isBehindLink(root, dirname(path))) return { path, state: BEHIND_LINK };
  const write = () => writeFileSync(join(root, path), content, { flag: 'wx', mode: 0o644 });
  return { path, state: unlessThere(write) };
}

/** The target of a link may be anywhere, and may serve something else. */
function isBehindLink(root: string, path: string): boolean {
  if (path === '.') return false;
  const isLink = lstatSync(join(root, path), { throwIfNoEntry: false })?.isSymbolicLink() === true;
  return isLink || isBehindLink(root, dirname(path));
}

function unlessThere(make: () => void): RootEntry['state'] {
  try {
    make();
    return 'created';
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return 'already there';
    throw error;
  }
}

function explainFailure(root: string, error: NodeJS.ErrnoException): Error {
  if (error.path === undefined) return error;
  const isFile = error.code === 'EEXIST';
  const reason = isFile ? 'a file is where a folder is needed' : reasonOfSystem(error);
  return new UsageError(
    `${error.path} could not be created for the root ${root}: ${reason}. Correct that, or choose another folder.`,
  );
}
