import type { ArchivePolicy } from '../../settings/settings.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { StoreSession } from '../../store/store.ts';
import type { JobState } from '../../store/words.ts';
import { matchGlob } from '../../system/base/glob.ts';
import type { JobRef } from '../api.ts';
import { refuse, wrongState } from '../errors.ts';
import { findJob, type VerbSession } from '../read/jobs.ts';
import { resumeParentIfDone } from './families.ts';

/** Decides which ended jobs of the queue are kept. Make a new one for each attempt at a transaction. */
export interface Archive {
  /** Whether everything is kept. */
  readonly keepsAll: boolean;
  keeps(name: string, state: JobState): boolean;
  /** Files in the output folder that no row names any more, once the transaction is committed. */
  readonly unnamed: string[];
}

/** Creates it from the settings: if several globs match, the last one counts. */
export function createArchive(policies: Readonly<Record<string, ArchivePolicy>>): Archive {
  const entries = Object.entries(policies);
  return {
    keepsAll: entries.length === 0,
    unnamed: [],
    keeps: (name, state) => {
      const policy = entries.findLast(([pattern]) => matchGlob(pattern, name))?.[1] ?? 'keep';
      return policy === 'keep' || (policy === 'keep-failed' && state === 'failed');
    },
  };
}

/**
 * Removes a job that is not running, or whose running claim is given, with its runs and its children. Call it in a
 * transaction.
 *
 * @returns names of output files that no run has any more
 */
export async function deleteJob(session: VerbSession, ref: JobRef, at: number): Promise<readonly string[]> {
  const job = await findJob(session, ref);
  // `findJob` has already refused a token that no longer holds the job.
  const isHeld = typeof ref === 'object' && ref.token !== undefined;
  if (job.state === 'running' && !isHeld) throw wrongState(job, 'delete');
  const jobs = [...(await endedChildren(session, job)), job];
  const files = await session.jobs.delete(jobs.map(({ id }) => id));
  await session.events.record(
    jobs.map(({ id, name }) => ({ at, event: 'job-deleted' as const, jobId: id, detail: name })),
  );
  await resumeParentIfDone(session, job.parent_id, at);
  return files;
}

/** @throws {QueueError} if a child has not ended: it would be left without its parent */
async function endedChildren(session: StoreSession, job: JobHead): Promise<JobHead[]> {
  const children = await session.jobs.children(job.id);
  const pending = children.filter(({ finished_at }) => finished_at === null);
  if (pending.length === 0) return children;
  const ids = pending.map(({ id }) => id).join(', ');
  const jobs = pending.length === 1 ? `a child that has` : `${pending.length} children that have`;
  throw refuse(job, `has ${jobs} not ended (${ids}); cancel or delete them first.`);
}
