import type { ArchivePolicy } from '../config/settings.ts';
import { deleteJobs } from '../store/delete-rows.ts';
import type { Database } from '../store/open-store.ts';
import type { JobRow, JobState } from '../store/schema.ts';
import { matchGlob } from './sqlite-glob.ts';

/** What is kept of jobs of the queue once they have ended. */
export interface Archive {
  /** Whether everything is kept. */
  readonly keepsAll: boolean;
  keeps(name: string, state: JobState): boolean;
  /** Told of files in the output folder that nothing names any more. */
  onRemoved(outputFiles: readonly string[]): void;
}

/** By the settings: of several globs that fit, the last one counts. */
export function createArchive(
  policies: Readonly<Record<string, ArchivePolicy>>,
  onRemoved: Archive['onRemoved'],
): Archive {
  const entries = Object.entries(policies);
  return {
    keepsAll: entries.length === 0,
    onRemoved,
    keeps: (name, state) => {
      const policy = entries.findLast(([pattern]) => matchGlob(pattern, name))?.[1] ?? 'keep';
      return policy === 'keep' || (policy === 'keep-failed' && state === 'failed');
    },
  };
}

/**
 * Removes a job that has just ended, with its runs, if it is not to be kept; its activity stays. A child
 * is kept for its parent, which is to be told of it.
 */
export async function removeUnkept(
  db: Database,
  { id, name, parent_id }: Pick<JobRow, 'id' | 'name' | 'parent_id'>,
  state: JobState,
  archive: Archive | undefined,
): Promise<void> {
  if (archive === undefined || parent_id !== null || archive.keeps(name, state)) return;
  const children = await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state'])
    .where('parent_id', '=', id)
    // One that runs on goes when it is old.
    .where('finished_at', 'is not', null)
    .execute();
  const unkept = children.filter((child) => !archive.keeps(child.name, child.state));
  archive.onRemoved((await deleteJobs(db, [{ id }, ...unkept])).outputFiles);
}
