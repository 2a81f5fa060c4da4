import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import type { Settings } from '../settings/settings.ts';
import { isCommandName } from '../system/base/command-names.ts';
import { isDenied, NoSuchName, sentenceOf, UsageError } from '../system/base/errors.ts';
import { nearestName } from '../system/base/suggest.ts';
import { compareBytes, printableName, shellWord } from '../system/base/values.ts';
import { type Distrust, faultOf, judgePath, judgeRoot } from '../system/place/trust.ts';
import type { Ignored } from './script.ts';

/** Names that are never scripts, whatever the file contains, with the reasons. The first match counts. */
const ignoredNames: readonly (readonly [RegExp, string])[] = [
  [/^node_modules$/, 'node_modules contains packages, not scripts'],
  [/^\./, 'hidden: its name begins with a dot'],
  [/^_/, 'its name begins with _'],
  [/~$/, 'a backup copy: its name ends in ~'],
  [/\.disabled$/, 'disabled: its name ends in .disabled'],
  [/\.(?:bak|orig)$/, 'a backup copy: its name ends in .bak or .orig'],
  [/\.swp$/, 'the swap file of an editor'],
  [/\.new$/, 'a new version not in use yet: its name ends in .new'],
  [/\.rpm[^.]*$/, 'left behind by rpm'],
  [/\.dpkg-[^.]*$/, 'left behind by dpkg'],
  [/\.d\.[cm]?ts$/, 'a type declaration, which does nothing'],
  [/\.test\.[^.]+$/, 'a test'],
  [/^readme(?:\..*)?$/i, 'documentation'],
  [/\.(?:txt|md)$/i, 'text'],
  [/\.json$/i, 'data'],
];

/** Why a file or folder of this name is no script; null: its name allows it. */
export function reasonToIgnore(name: string): string | null {
  return ignoredNames.find(([form]) => form.test(name))?.[1] ?? null;
}

/** The entries of a folder whose names all say that they are no scripts; null: it may have some, or cannot be read. */
export function namesNoScript(folder: string): readonly Ignored[] | null {
  try {
    const found = readdirSync(folder).toSorted(compareBytes);
    const ignored = found.flatMap((name) => {
      const reason = reasonToIgnore(name);
      return reason === null ? [] : [{ path: join(folder, name), reason }];
    });
    return ignored.length === found.length ? ignored : null;
  } catch {
    return null;
  }
}

/** Names of its lock's files begin with it and are longer; encrypted homes allow names of 143 bytes. */
const LONGEST_TIER_BYTES = 100;

/** Why a folder of this name directly under `jobs/` is no tier; null: it is one. */
function reasonAgainstTier(name: string): string | null {
  if (name === QUEUE_TIER) return 'it contains the handlers of queued jobs';
  if (isCommandName(name)) return `\`npx folder-runner ${name}\` is a command; rename the folder`;
  if (printableName(name) !== name) return 'its name contains control characters';
  if (Buffer.byteLength(name) > LONGEST_TIER_BYTES) {
    return `its name is longer than the ${LONGEST_TIER_BYTES} bytes that a tier's may have; rename it`;
  }
  return reasonToIgnore(name);
}

/** The entries directly under `jobs/`, in the order of their names. */
interface JobsFolder {
  readonly tiers: readonly string[];
  readonly ignored: readonly Ignored[];
}

/** @throws {UsageError} if it cannot be read */
export function readJobsFolder(root: string): JobsFolder {
  const jobs = join(root, 'jobs');
  const tiers: string[] = [];
  const ignored: Ignored[] = [];
  for (const name of namesIn(jobs)) {
    const path = join(jobs, name);
    const reason = reasonAgainst(name, path);
    if (reason === null) tiers.push(name);
    // The handlers' folder is no tier, but it is not ignored either.
    else if (name !== QUEUE_TIER || !leadsToFolder(path)) ignored.push({ path, reason });
  }
  return { tiers, ignored };
}

/** The tiers of this root, in the order of their names. @throws {UsageError} if they cannot be read */
export function tierNames(root: string): readonly string[] {
  return readJobsFolder(root).tiers;
}

function reasonAgainst(name: string, path: string): string | null {
  return leadsToFolder(path) ? reasonAgainstTier(name) : 'not in a tier; move it into one, such as jobs/hourly';
}

function namesIn(jobs: string): readonly string[] {
  try {
    return readdirSync(jobs).toSorted(compareBytes);
  } catch (error) {
    throw new UsageError(describeReadFailure(jobs, jobs, error) ?? `${jobs} vanished while it was read; try again.`);
  }
}

/** False for an entry that cannot be read: a broken symlink, or one that leads back to itself. */
function leadsToFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** The folder of a tier by its name. @throws {UsageError} that suggests the nearest name */
export function tierFolder(root: string, name: string): string {
  const isName = name !== '' && !name.includes('/') && reasonAgainstTier(name) === null;
  const folder = join(root, 'jobs', name);
  if (isName && leadsToFolder(folder)) return folder;
  throw noTier(root, name);
}

/** Wrong use: the word names no tier. It may have been meant for a command. */
export class NoSuchTier extends NoSuchName {
  /** The sentence up to its end. */
  readonly begun: string;
  /** Whether the sentence asks if another tier was meant. */
  readonly asks: boolean;

  constructor(begun: string, asks: boolean) {
    super(begun + (asks ? '?' : '.'));
    this.begun = begun;
    this.asks = asks;
  }
}

function noTier(root: string, name: string): NoSuchName {
  if (name === QUEUE_TIER) {
    return new NoSuchName(
      'jobs/queue is not a tier: it contains the handlers of queued jobs, which `npx folder-runner work` processes.',
    );
  }
  const { tiers, ignored } = readJobsFolder(root);
  const own = ignored.find(({ path }) => path === join(root, 'jobs', name));
  if (own !== undefined) return new NoSuchName(`jobs/${printableName(name)} is not a tier: ${own.reason}.`);
  const nearest = nearestName(tierMeant(root, name) ?? name, tiers);
  const hint = nearest === null ? listTiers(tiers) : `did you mean ${nearest}`;
  return new NoSuchTier(`There is no tier ${JSON.stringify(name)} in ${join(root, 'jobs')}; ${hint}`, nearest !== null);
}

/** The tier whose folder is named, relative to the root or from above: `jobs/hourly/` is `hourly`; null: none. */
export function tierMeant(root: string, path: string): string | null {
  const name = relative(join(root, 'jobs'), resolve(root, path));
  const folder = path.includes('/') ? name : path;
  return readJobsFolder(root).tiers.find((tier) => tier === folder) ?? null;
}

function listTiers(tiers: readonly string[]): string {
  return tiers.length === 0
    ? 'there is none yet: `npx folder-runner init` creates some, `npx folder-runner new` one with a script'
    : `the tiers here are ${tiers.join(', ')}`;
}

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
  if (isDenied(error)) {
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
