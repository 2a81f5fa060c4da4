import type { ArchivePolicy } from '../../settings/settings.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { StoreSession } from '../../store/store.ts';
import type { JobState } from '../../store/words.ts';
import { isEnded } from '../../store/words.ts';
import { matchGlob } from '../../system/base/glob.ts';

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
 * Removes a queued job that has just ended, with its runs, unless it is to be kept. A child is kept until its parent
 * has learned of its end.
 *
 * @returns whether it was kept
 */
export async function removeUnkept(
  session: StoreSession,
  { id, name, parent_id, tier }: JobHead,
  state: JobState,
  archive: Archive | undefined,
): Promise<boolean> {
  if (archive === undefined || archive.keepsAll || tier !== null || !isEnded(state)) return true;
  if (parent_id !== null || archive.keeps(name, state)) return true;
  const [job] = await session.jobs.byId([id]);
  // A repeating job has not ended.
  if (job?.finished_at == null) return true;
  const children = (await session.jobs.children(id)).filter(
    // A child that still runs is removed later, when it is old.
    (child) => child.finished_at !== null && !archive.keeps(child.name, child.state),
  );
  archive.unnamed.push(...(await session.jobs.delete([id, ...children.map((child) => child.id)])));
  return false;
}
