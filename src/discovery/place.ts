import { readlinkSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Settings } from '../settings/settings.ts';
import { sentenceOf } from '../system/base/errors.ts';
import { printableName, shellWord } from '../system/base/values.ts';
import { type Distrust, faultOf, judgePath, judgeRoot } from '../system/place/trust.ts';

/** `jobs/` or a folder in it, with the reasons against all that it contains. */
export interface JobsPlace {
  readonly root: string;
  readonly settings: Settings;
  readonly matches: PatternMatcher;
  /** The other users who could have written it: a user who can write to a folder can replace its contents. */
  readonly distrust: readonly string[];
}

/** The properties that all files of one folder of a tier share. */
export interface TierPlace extends JobsPlace {
  readonly tier: string;
}

/** The name that handlers have in the place of a tier. */
export const QUEUE_TIER = 'queue';

/** The place of `jobs/`. */
export function enterJobs(root: string, settings: Settings, matches: PatternMatcher): JobsPlace {
  const distrust = settings.allowUnsafe ? null : judgeRoot(root);
  const ofRoot = distrust === null ? [] : [describe(root, distrust)];
  return enterFolder({ root, settings, matches, distrust: ofRoot }, join(root, 'jobs'));
}

/** The place of a folder below another place. */
export function enterFolder<In extends JobsPlace>(place: In, folder: string): In {
  return { ...place, distrust: [...place.distrust, ...distrustOf(place, folder)] };
}

/** Says in one sentence each who else could have written a file or folder; empty if that is allowed. */
export function distrustOf({ root, settings }: JobsPlace, path: string): readonly string[] {
  if (settings.allowUnsafe) return [];
  return judgePath(root, path).map((distrust) => describe(root, distrust));
}

function describe(root: string, distrust: Distrust): string {
  return printableName(sentenceOf(faultOf(root, distrust)));
}

/** The name of a file in messages: relative to the root, printable. */
export function fileName({ root }: Pick<JobsPlace, 'root'>, path: string): string {
  return printableName(relative(root, path));
}

/** Why a file or folder cannot be read, in one sentence; null: it is gone, which is no fault. */
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

/** Whether a name such as `hourly/clean-tmp` matches a pattern such as `hourly/clean-*`. */
export type PatternMatcher = (pattern: string, name: string) => boolean;

const magic = /[*?[\]{}()!+@\\]/;

/** Loads the glob library only if one of the patterns needs it: most passes have plain names, or none. */
export async function createPatternMatcher(patterns: readonly string[]): Promise<PatternMatcher> {
  if (!patterns.some((pattern) => magic.test(pattern))) return (pattern, name) => pattern === name;
  const { Glob, Ignore } = await import('glob');
  // Names are matched like files below this folder, which need not exist. `/` itself does not do: glob 14 makes
  // relative paths below it without their slashes.
  const { cwd } = new Glob('.', { cwd: '/jobs' }).scurry;
  const globs = new Map(patterns.map((pattern) => [pattern, new Ignore([pattern], {})]));
  return (pattern, name) => globs.get(pattern)?.ignored(cwd.resolve(name)) ?? false;
}

/** The texts that a pattern of the settings may match: a script's name, or its file below `jobs/`. */
export function matchableNames(root: string, name: string, path: string): readonly string[] {
  return [name, relative(root, path).replace(/^jobs\//, '')];
}
