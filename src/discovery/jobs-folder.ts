import { readdirSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { isCommandName } from '../system/base/command-names.ts';
import { UsageError } from '../system/base/errors.ts';
import { nearestName } from '../system/base/suggest.ts';
import { compareBytes, printableName } from '../system/base/values.ts';

import { describeReadFailure, QUEUE_TIER } from './place.ts';
import type { Ignored } from './script.ts';

/** Names that are no scripts, whatever the file holds, and why. The first that fits counts. */
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

/** Why a file or folder of this name is no script; null if its name does not forbid it. */
export function reasonToIgnore(name: string): string | null {
  return ignoredNames.find(([form]) => form.test(name))?.[1] ?? null;
}

/** Files of its lock are called after it, with more behind that; encrypted homes take names of 143 bytes. */
const LONGEST_TIER_BYTES = 100;

/** Why a folder of this name directly under `jobs/` is no tier; null if it is one. */
function reasonAgainstTier(name: string): string | null {
  if (name === QUEUE_TIER) return 'it contains the handlers of queued jobs';
  if (isCommandName(name)) return `\`npx folder-runner ${name}\` is a command; rename the folder`;
  if (printableName(name) !== name) return 'its name contains control characters';
  if (Buffer.byteLength(name) > LONGEST_TIER_BYTES) {
    return `its name is longer than the ${LONGEST_TIER_BYTES} bytes that a tier's may have; rename it`;
  }
  return reasonToIgnore(name);
}

/** What lies directly under `jobs/`, each in the order of the names. */
export interface JobsFolder {
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
    // The folder of the handlers is no tier, but not ignored either.
    else if (name !== QUEUE_TIER || !isFolder(path)) ignored.push({ path, reason });
  }
  return { tiers, ignored };
}

/** The tiers of this root, in the order of their names. @throws {UsageError} if they cannot be read */
export function tierNames(root: string): readonly string[] {
  return readJobsFolder(root).tiers;
}

function reasonAgainst(name: string, path: string): string | null {
  return isFolder(path) ? reasonAgainstTier(name) : 'not in a tier; move it into one, such as jobs/hourly';
}

function namesIn(jobs: string): readonly string[] {
  try {
    return readdirSync(jobs).toSorted(compareBytes);
  } catch (error) {
    throw new UsageError(describeReadFailure(jobs, jobs, error) ?? `${jobs} vanished while it was read; try again.`);
  }
}

/** False for whatever cannot be looked at: a broken symlink, one that leads back to itself. */
function isFolder(path: string): boolean {
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
  if (name === QUEUE_TIER) {
    return 'jobs/queue is not a tier: it contains the handlers of queued jobs, which `npx folder-runner work` processes.';
  }
  const { tiers, ignored } = readJobsFolder(root);
  const own = ignored.find(({ path }) => path === join(root, 'jobs', name));
  if (own !== undefined) return `jobs/${printableName(name)} is not a tier: ${own.reason}.`;
  return `There is no tier ${JSON.stringify(name)} in ${join(root, 'jobs')}; ${hintAtTiers(tierMeant(root, name) ?? name, tiers)}`;
}

/** The tier whose folder is named, as seen from the root or from above: `jobs/hourly/` is `hourly`; null: none is. */
export function tierMeant(root: string, path: string): string | null {
  const name = relative(join(root, 'jobs'), resolve(root, path));
  const folder = path.includes('/') ? name : path;
  return readJobsFolder(root).tiers.find((tier) => tier === folder) ?? null;
}

function hintAtTiers(name: string, tiers: readonly string[]): string {
  if (tiers.length === 0)
    return 'there is none yet: `npx folder-runner init` creates some, `npx folder-runner new` one with a script.';
  const nearest = nearestName(name, tiers);
  return nearest === null ? `the tiers here are ${tiers.join(', ')}.` : `did you mean ${nearest}?`;
}
