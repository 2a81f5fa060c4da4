import { join } from 'node:path';
import { globSync } from 'glob';
import { compareBytes } from '../base/values.ts';
import { isFolder, QUEUE_TIER, readJobsFolder, reasonAgainstTier } from './place.ts';
import type { Ignored } from './script.ts';
import { plainFolder } from './tier.ts';

interface JobsFolder {
  readonly tiers: readonly string[];
  readonly ignored: readonly Ignored[];
}

/** More would drown the rest of the list. */
const mostFilesListed = 20;

/** What lies directly under `jobs/`. */
export function listJobsFolder(root: string): JobsFolder {
  const jobs = join(root, 'jobs');
  const names = readJobsFolder(jobs).toSorted(compareBytes);
  const tiers = names.filter((name) => !isQueue(jobs, name) && reasonOf(jobs, name) === null);
  return { tiers, ignored: names.flatMap((name) => listIgnored(jobs, name)) };
}

function reasonOf(jobs: string, name: string): string | null {
  return isFolder(join(jobs, name))
    ? reasonAgainstTier(name)
    : 'not in a tier; move it into one, such as jobs/hourly';
}

function listIgnored(jobs: string, name: string): readonly Ignored[] {
  const path = join(jobs, name);
  const reason = reasonOf(jobs, name);
  return reason === null || isQueue(jobs, name) ? [] : [{ path, reason }];
}

/** The folder of the handlers, which is no tier, but not ignored either. */
function isQueue(jobs: string, name: string): boolean {
  return name === QUEUE_TIER && isFolder(join(jobs, name));
}

/** A folder that is no script may hold files that were meant to be: they are named, up to a number. */
export function listPlainFolder(ignored: Ignored): readonly Ignored[] {
  if (ignored.reason !== plainFolder) return [ignored];
  const files = filesWithin(ignored.path, true);
  if (files.length > mostFilesListed) {
    return [{ ...ignored, reason: `${plainFolder}; it holds ${files.length} files` }];
  }
  const reason = `it lies in ${plainFolder}`;
  return [ignored, ...files.map((file) => ({ path: join(ignored.path, file), reason }))];
}

function filesWithin(folder: string, dot: boolean): readonly string[] {
  const files = globSync('**/*', { cwd: folder, nodir: true, dot, ignore: '**/node_modules/**' });
  return files.toSorted(compareBytes);
}
