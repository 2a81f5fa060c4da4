import { fallbackStateFolderOf } from '../config/fallback-state-folder.ts';
import type { StateFolder } from '../config/state-folder.ts';
import type { Tier } from '../discovery/script.ts';
import { periodStart } from '../discovery/tier-period.ts';
import { readSpool } from '../store/spool/read-spool.ts';
import { listSpoolFiles, type SpoolFile } from '../store/spool/spool-files.ts';
import type { SpoolHeader } from '../store/spool/spool-record.ts';
import type { Call } from './pass.ts';

/** A period that began longer ago has had its pass, most likely: only the log knows. */
const RECENT_MS = 3_600_000;

/**
 * Tiers to be run while nobody can ask the log: those whose period began within the last hour, and
 * that the spool knows no pass of since.
 */
export function findDueWithoutLog({ runner }: Call, tiers: readonly Tier[]): readonly Tier[] {
  const at = runner.now();
  const passes = [runner.state, fallbackStateFolderOf(runner.root)].flatMap((state) =>
    listReadable(state).flatMap(({ path }) => readHeader(path) ?? []),
  );
  return tiers.filter(({ name }) => {
    const start = periodStart(name, at);
    if (start === null || at - start > RECENT_MS) return false;
    return !passes.some(
      ({ kind, tier, startedAt }) => kind === 'tier' && tier === name && startedAt >= start,
    );
  });
}

/** The place of the second one is anybody's to take: another user's tells nothing. */
function listReadable(state: StateFolder): readonly SpoolFile[] {
  try {
    return listSpoolFiles(state);
  } catch {
    return [];
  }
}

function readHeader(path: string): SpoolHeader | null {
  try {
    for (const line of readSpool(path)) return line.type === 'worker' ? line : null;
  } catch {
    // Another user's, or just taken in: it tells nothing.
  }
  return null;
}
