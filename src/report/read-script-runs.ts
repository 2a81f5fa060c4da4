import type { Kysely } from 'kysely';
import type { ActivityLog } from '../store/schema.ts';
import { findScript } from './find-script.ts';
import { type KnownTier, tierOf } from './overview.ts';
import type { RunRecord } from './run-record.ts';
import { selectScriptNames } from './select-names.ts';
import { type RunFilter, selectRuns } from './select-runs.ts';

/** One script's runs in a window. */
export interface ScriptRuns {
  readonly script: string;
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** There are older ones in the window, which the limit left out. */
  readonly isCut: boolean;
}

export interface ScriptQuery extends RunFilter {
  readonly tier?: string | undefined;
  readonly known?: readonly KnownTier[] | undefined;
}

/**
 * Finds the script that was meant, in `jobs/` or in the log, and reads its runs.
 *
 * @throws {UsageError} when there is no such script
 */
export async function readScriptRuns(
  db: Kysely<ActivityLog>,
  word: string,
  query: ScriptQuery,
): Promise<ScriptRuns> {
  const names = await findNames(db, query.known);
  const inTier = names.filter((name) => query.tier === undefined || tierOf(name) === query.tier);
  const script = findScript(word, inTier);
  const { sinceMs, untilMs, outcomes, limit } = query;
  // One more than asked for tells whether there are more.
  const beyond = limit === undefined ? undefined : limit + 1;
  const filter = { sinceMs, untilMs, outcomes, limit: beyond };
  const runs = await selectRuns(db, script, filter);
  const isCut = limit !== undefined && runs.length > limit;
  return { script, sinceMs, untilMs, runs: runs.slice(0, limit), isCut };
}

/** Every script that is in `jobs/` or was once. */
export async function findNames(
  db: Kysely<ActivityLog>,
  known: readonly KnownTier[] | undefined,
): Promise<string[]> {
  const logged = await selectScriptNames(db);
  return [...new Set([...(known ?? []).flatMap((tier) => tier.scripts), ...logged])];
}
