import { existsSync, lstatSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { UsageError } from '../base/errors.ts';

export interface RootSearch {
  /** The value of `--root`. */
  readonly option: string | undefined;
  /** The option's name as the user typed it, for messages. Default: `--root`. */
  readonly optionName?: string;
  /** The value of `RUNNER_ROOT`. */
  readonly variable: string | undefined;
  readonly cwd: string;
}

/**
 * The root named by `--root`, otherwise by `RUNNER_ROOT`, otherwise the nearest parent folder that contains `jobs/`.
 */
export function findRoot(search: RootSearch): string {
  const { optionName = '--root' } = search;
  if (search.option === '') {
    throw new UsageError(`${optionName} is empty: it must be the folder that contains jobs/.`);
  }
  if (search.option !== undefined) return namedRoot(optionName, resolve(search.cwd, search.option));
  if (search.variable) return namedRoot('RUNNER_ROOT', resolve(search.cwd, search.variable));
  const root = findRootAbove(search.cwd);
  if (root !== null) return root;
  throw new UsageError(
    `No jobs folder in ${search.cwd} or above it. ` +
      'Create one with `npx folder-runner init`, or name the folder that contains it with ' +
      `${optionName} or RUNNER_ROOT.`,
  );
}

/** The nearest folder that contains `jobs/`, this one or one above it; null: none. */
export function findRootAbove(folder: string): string | null {
  return upward(folder).find(holdsJobs) ?? null;
}

function namedRoot(source: string, root: string): string {
  if (holdsJobs(root)) return root;
  throw new UsageError(
    `${source} names ${root}, which has no jobs folder. Create one there with \`npx folder-runner init\`.`,
  );
}

/** A folder is a root if it contains a folder `jobs/`. */
export function holdsJobs(folder: string): boolean {
  const jobs = join(folder, 'jobs');
  // `statSync` throws if the disk fails, which is then reported instead of a missing folder.
  return existsSync(jobs) && statSync(jobs).isDirectory();
}

function upward(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...upward(parent)];
}

/**
 * The link on the way to a root that its user has made, such as `current` of a deploy, and can redirect; null: none. A
 * link to all homes of a host is the host's own.
 */
function findOwnLink(path: string): string | null {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  const parent = dirname(path);
  if (parent === path || stats === undefined) return null;
  // An entry at the top of the file system belongs to the system, even if this user is root.
  const isOwn = stats.isSymbolicLink() && stats.uid === process.geteuid?.() && parent !== '/';
  return isOwn ? path : findOwnLink(parent);
}

/** The data that stays behind when such a link leads to another folder, and the cure; null: none. */
export function findUnshared(root: string): { readonly fault: string; readonly cure: string } | null {
  const link = findOwnLink(root);
  if (link === null || lstatSync(join(root, '.runner'), { throwIfNoEntry: false })?.isSymbolicLink()) return null;
  const left = join(realpathSync(root), '.runner');
  return {
    fault: `${link} is a link: when it leads to another release one day, the log and the waiting jobs stay behind in ${left}`,
    cure: 'Make .runner a link to one folder for all releases, as docs/cron.md shows.',
  };
}

/** Whether two paths lead to one folder, or to sibling releases of which a link of the user's names one. */
export function areAlike(root: string, other: string): boolean {
  const [real, realOther] = [root, other].map((path) => realpathSync(path)) as [string, string];
  if (real === realOther) return true;
  const isLinked = findOwnLink(root) !== null || findOwnLink(other) !== null;
  return isLinked && dirname(real) === dirname(realOther);
}
