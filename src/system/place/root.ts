import { existsSync, statSync } from 'node:fs';
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
  return existsSync(jobs) && statSync(jobs).isDirectory();
}

function upward(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...upward(parent)];
}
