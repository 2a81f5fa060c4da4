import type { ArchivePolicy } from '../../settings/settings.ts';
import { recordActivity } from '../../store/events.ts';
import { deleteJobs } from '../../store/prune.ts';
import type { JobRow, JobState } from '../../store/schema.ts';
import { matchGlob } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import type { JobRef } from '../api.ts';
import { refuse, wrongState } from '../errors.ts';
import { findJob } from '../read/jobs.ts';
import { tellParent, unfinishedStates } from './families.ts';

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

/**
 * Removes a job that does not run, or that is held by the claim given, with its runs and its children.
 *
 * @returns names of output files that no run has any more
 */
export async function deleteJob(db: Database, ref: JobRef, at: number): Promise<readonly string[]> {
  return await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, ref);
    // With a token that holds no more, `findJob` has refused.
    const isHeld = typeof ref === 'object' && ref.token !== undefined;
    if (job.state === 'running' && !isHeld) throw wrongState(job, 'delete');
    const children = await selectChildren(transaction, job);
    const files = await removeJobs(transaction, [...children, job], at);
    await tellParent(transaction, job.parent_id, at);
    return files;
  });
}

interface Removed {
  readonly id: number;
  readonly name: string;
}

/** @throws {QueueError} if one of them has not ended: it would be left alone */
async function selectChildren(db: Database, job: JobRow): Promise<Removed[]> {
  const children = await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state'])
    .where('parent_id', '=', job.id)
    .execute();
  const pending = children.filter(({ state }) => unfinishedStates.some((each) => each === state));
  if (pending.length === 0) return children;
  const ids = pending.map(({ id }) => id).join(', ');
  const jobs = pending.length === 1 ? `a child that has` : `${pending.length} children that have`;
  throw refuse(job, `has ${jobs} not ended (${ids}); cancel or delete them first.`);
}

async function removeJobs(
  db: Database,
  jobs: readonly Removed[],
  at: number,
): Promise<readonly string[]> {
  const { outputFiles } = await deleteJobs(db, jobs);
  await recordActivity(
    db,
    jobs.map(({ id, name }) => ({
      at,
      event: 'job-deleted' as const,
      jobId: id,
      detail: name,
    })),
  );
  return outputFiles;
}
