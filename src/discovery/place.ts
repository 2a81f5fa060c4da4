import { readlinkSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Settings } from '../settings/settings.ts';
import { printableName, shellWord } from '../system/base/values.ts';
import { type Distrust, describeDistrust, judgePath, judgeRoot } from '../system/place/trust.ts';

/** A folder in `jobs/`, or that itself, and what speaks against whatever lies in it. */
export interface JobsPlace {
  readonly root: string;
  readonly settings: Settings;
  readonly matches: PatternMatcher;
  /** Who else could have written it: whoever can write a folder can replace what is in it. */
  readonly distrust: readonly string[];
}

/** What all files of one folder of a tier have in common. */
export interface TierPlace extends JobsPlace {
  readonly tier: string;
}

/** What the handlers have instead of a tier. */
export const QUEUE_TIER = 'queue';

/** The place that `jobs/` is. */
export function enterJobs(root: string, settings: Settings, matches: PatternMatcher): JobsPlace {
  const distrust = settings.allowUnsafe ? null : judgeRoot(root);
  const ofRoot = distrust === null ? [] : [describe(root, distrust)];
  return enterFolder({ root, settings, matches, distrust: ofRoot }, join(root, 'jobs'));
}

/** The place that a folder of it is. */
export function enterFolder<In extends JobsPlace>(place: In, folder: string): In {
  return { ...place, distrust: [...place.distrust, ...distrustOf(place, folder)] };
}

/** Who else could have written a file or folder, in one sentence each; nobody, if it is allowed. */
export function distrustOf({ root, settings }: JobsPlace, path: string): readonly string[] {
  if (settings.allowUnsafe) return [];
  return judgePath(root, path).map((distrust) => describe(root, distrust));
}

function describe(root: string, distrust: Distrust): string {
  return printableName(describeDistrust(root, distrust));
}

/** How messages name a file: relative to the root, printable. */
export function fileName({ root }: Pick<JobsPlace, 'root'>, path: string): string {
  return printableName(relative(root, path));
}

/** Why a file or folder cannot be read, in one sentence; null if it is gone, which is no fault. */
export function describeReadFailure(path: string, file: string, error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  const target = code === 'ENOENT' ? linkTarget(path) : null;
  if (target !== null) {
    return `${file}: a symlink to ${JSON.stringify(target)}, which does not exist; fix or remove it`;
  }
  if (code === 'ENOENT') return null;
  if (code === 'ELOOP') return `${file}: a symlink that leads back to itself; fix or remove it`;
  if (code === 'EACCES' || code === 'EPERM') {
    return `${file}: it cannot be read: permission denied; allow it with: chmod u+rX ${shellWord(file)}`;
  }
  return `${file}: it cannot be read: ${code ?? String(error)}`;
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

/** Whether a name such as `hourly/clean-tmp` fits a pattern such as `hourly/clean-*`. */
export type PatternMatcher = (pattern: string, name: string) => boolean;

const magic = /[*?[\]{}()!+@\\]/;

/** Loads the glob library only if one of the patterns needs it: most passes have plain names, or none. */
export async function createPatternMatcher(patterns: readonly string[]): Promise<PatternMatcher> {
  if (!patterns.some((pattern) => magic.test(pattern))) return (pattern, name) => pattern === name;
  const { Glob, Ignore } = await import('glob');
  // Names are matched as if they were files below this folder, which need not exist; `/` itself is
  // left out, for glob 14 makes relative paths below it without their slashes.
  const { cwd } = new Glob('.', { cwd: '/jobs' }).scurry;
  const globs = new Map(patterns.map((pattern) => [pattern, new Ignore([pattern], {})]));
  return (pattern, name) => globs.get(pattern)?.ignored(cwd.resolve(name)) ?? false;
}

/** What a pattern of the settings may match: a script's name, or its file below `jobs/`. */
export function matchableNames(root: string, name: string, path: string): readonly string[] {
  return [name, relative(root, path).replace(/^jobs\//, '')];
}
