import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { nearestName } from '../base/suggest.ts';
import { compareBytes, printableName, shellWord } from '../base/values.ts';
import { type Distrust, describeDistrust, judgePath, judgeRoot } from '../place/trust.ts';
import type { Settings } from '../settings/settings.ts';
import type { Unread } from './script.ts';

/** A folder of a root, and what speaks against whatever lies in it. */
interface Place {
  readonly root: string;
  readonly settings: Settings;
  /** Who else could have written it: whoever can write a folder can replace what is in it. */
  readonly distrust: readonly string[];
}

/** What all tiers have in common. */
export interface JobsPlace extends Place {
  readonly matches: PatternMatcher;
}

/** What the handlers have instead of a tier. */
export const QUEUE_TIER = 'queue';

/** What all files of one folder of a tier have in common. */
export interface TierPlace extends JobsPlace {
  readonly tier: string;
}

export function enterRoot(root: string, settings: Settings): Place {
  const distrust = settings.allowUnsafe ? null : judgeRoot(root);
  return { root, settings, distrust: distrust === null ? [] : [describe(root, distrust)] };
}

/** The place that a folder of it is. */
export function enterFolder<In extends Place>(place: In, folder: string): In {
  return { ...place, distrust: [...place.distrust, ...distrustOf(place, folder)] };
}

/** Who else could have written a file or folder, in one sentence each; nobody, if it is allowed. */
export function distrustOf({ root, settings }: Place, path: string): readonly string[] {
  if (settings.allowUnsafe) return [];
  return judgePath(root, path).map((distrust) => describe(root, distrust));
}

function describe(root: string, distrust: Distrust): string {
  return printableName(describeDistrust(root, distrust));
}

interface NameRule {
  readonly form: RegExp;
  readonly reason: string;
}

/** Names that are no scripts, whatever the file holds. The first rule that fits gives the reason. */
const rules: readonly NameRule[] = [
  { form: /^node_modules$/, reason: 'node_modules holds packages, not scripts' },
  { form: /^\./, reason: 'hidden: its name begins with a dot' },
  { form: /^_/, reason: 'its name begins with _' },
  { form: /~$/, reason: 'a backup copy: its name ends in ~' },
  { form: /\.disabled$/, reason: 'disabled: its name ends in .disabled' },
  { form: /\.(?:bak|orig)$/, reason: 'a backup copy: its name ends in .bak or .orig' },
  { form: /\.swp$/, reason: 'the swap file of an editor' },
  { form: /\.new$/, reason: 'a new version not in use yet: its name ends in .new' },
  { form: /\.rpm[^.]*$/, reason: 'left behind by rpm' },
  { form: /\.dpkg-[^.]*$/, reason: 'left behind by dpkg' },
  { form: /\.d\.[cm]?ts$/, reason: 'a type declaration, which does nothing' },
  { form: /\.test\.[^.]+$/, reason: 'a test' },
  { form: /^readme(?:\..*)?$/i, reason: 'documentation' },
  { form: /\.(?:txt|md)$/i, reason: 'text' },
  { form: /\.json$/i, reason: 'data' },
];

/** Why a file or folder of this name is no script; null if its name does not forbid it. */
export function reasonToIgnore(name: string): string | null {
  return rules.find((rule) => rule.form.test(name))?.reason ?? null;
}

/** Why a file or folder cannot be read, in one sentence; null if it is gone, which is no fault. */
export function describeReadFailure(path: string, file: string, error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  const target = code === 'ENOENT' ? linkTarget(path) : null;
  if (target !== null) {
    return `${file}: a symlink to ${JSON.stringify(target)}, which does not exist; mend or remove it`;
  }
  if (code === 'ENOENT') return null;
  if (code === 'ELOOP') return `${file}: a symlink that leads back to itself; mend or remove it`;
  if (code === 'EACCES' || code === 'EPERM') {
    return `${file}: it cannot be read: permission denied; allow it with: chmod u+rX ${shellWord(file)}`;
  }
  return `${file}: it cannot be read: ${code ?? String(error)}`;
}

/** The same of a folder directly under `jobs/`. */
export function describeUnread(folder: string, tier: string, error: unknown): Unread {
  const name = `jobs/${tier}`;
  const reason = describeReadFailure(folder, name, error) ?? `${name}: it vanished`;
  return { tier, reason };
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

/** Why a name cannot be a tier's: `runner <name>` would mean something else. */
const reserved: ReadonlyMap<string, string> = new Map([
  ['queue', 'it holds the handlers of queued jobs'],
  ...[
    'add',
    'backup',
    'claim',
    'cron',
    'doctor',
    'due',
    'help',
    'import',
    'init',
    'job',
    'jobs',
    'kick',
    'list',
    'pause',
    'repeat',
    'report',
    'resume',
    'run',
    'show',
    'status',
    'tail',
    'why',
    'work',
  ].map((command) => [command, `\`runner ${command}\` is a command; rename the folder`] as const),
]);

/** Why a folder of this name directly under `jobs/` is no tier; null if it is one. */
export function reasonAgainstTier(name: string): string | null {
  const taken = reserved.get(name);
  if (taken !== undefined) return taken;
  if (printableName(name) !== name) return 'its name holds control characters';
  return reasonToIgnore(name);
}

/** The tiers of this root, in the order of their names. */
export function tierNames(root: string): readonly string[] {
  const jobs = join(root, 'jobs');
  return readJobsFolder(jobs)
    .filter((name) => reasonAgainstTier(name) === null && isFolder(join(jobs, name)))
    .toSorted(compareBytes);
}

/** What lies in it. @throws {UsageError} if it cannot be read */
export function readJobsFolder(jobs: string): readonly string[] {
  try {
    return readdirSync(jobs);
  } catch (error) {
    throw new UsageError(describeReadFailure(jobs, jobs, error) ?? `${jobs}: it vanished`);
  }
}

/** False for whatever cannot be looked at: a broken symlink, one that leads back to itself. */
export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** The folder of a tier that somebody named. @throws {UsageError} with the nearest name there is */
export function tierFolder(root: string, name: string): string {
  const isName = name !== '' && !name.includes('/') && reasonAgainstTier(name) === null;
  const folder = join(root, 'jobs', name);
  if (isName && isFolder(folder)) return folder;
  throw new UsageError(describeUnknownTier(root, name));
}

function describeUnknownTier(root: string, name: string): string {
  if (name === 'queue') {
    return 'jobs/queue is no tier: it holds the handlers of queued jobs, which `runner work` works off';
  }
  const tiers = tierNames(root);
  const nearest = nearestName(name, tiers);
  const cure =
    nearest === null
      ? `the tiers here are ${tiers.join(', ') || '(none)'}`
      : `did you mean ${nearest}?`;
  return `There is no tier ${JSON.stringify(name)} in ${join(root, 'jobs')}; ${cure}`;
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
