import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { nearestName } from '../config/near-miss.ts';
import { UsageError } from '../config/usage-error.ts';
import { compareBytes } from './byte-order.ts';
import { reasonToIgnore } from './ignored-names.ts';
import { printableName } from './printable-name.ts';
import { describeReadFailure } from './read-failure.ts';

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
  return readJobs(jobs)
    .filter((name) => reasonAgainstTier(name) === null && isFolder(join(jobs, name)))
    .toSorted(compareBytes);
}

/** What lies in it. @throws {UsageError} if it cannot be read */
export function readJobs(jobs: string): readonly string[] {
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
