import { median } from 'simple-statistics';
import type { LogView } from '../../../discovery/site.ts';
import { type MeasuredRun, usualOf } from '../../../store/statements/monitor/usual.ts';
import type { StoreSession } from '../../../store/store.ts';
import { field, record, shown, type Values } from '../../../system/base/record.ts';

/** A content that a script has had, and when it first ran. */
export const versionRecord = record(null, { contentHash: shown.text, firstRunAt: shown.instant });

type ScriptVersion = Values<typeof versionRecord>;

/** Which contents a script has had, the newest first. */
export async function selectVersions({ db }: LogView, script: string, limit: number): Promise<ScriptVersion[]> {
  return await db
    .selectFrom('script_versions')
    .innerJoin('scripts', 'scripts.id', 'script_versions.script_id')
    .select(['content_hash as contentHash', 'first_run_at as firstRunAtMs'])
    .where('scripts.name', '=', script)
    .orderBy('first_run_at', 'desc')
    .orderBy('script_versions.id', 'desc')
    .limit(limit)
    .execute();
}

/** Medians of a script's last successful runs; null: none of them has the figure. */
export const usualRecord = record(null, {
  /** How many runs that is known of. */
  runs: shown.integer,
  durationMs: shown.number.orNull,
  maxRssBytes: shown.number.orNull,
  outputBytes: shown.number.orNull,
  counts: field.map(field.number),
});

export type UsualFigures = Values<typeof usualRecord>;

/** As many as tell what is usual now, not what it was last year. */
const USUAL_RUNS = 30;

/** @param store null: nothing was ever recorded */
export async function readUsual(store: StoreSession | null, script: string, nowMs: number): Promise<UsualFigures> {
  const runs = store === null ? [] : await usualOf(store.statements).successes(script, nowMs + 1, USUAL_RUNS);
  const medianOf = (of: (run: MeasuredRun) => number | null): number | null => {
    const known = runs.flatMap((run) => of(run) ?? []);
    return known.length === 0 ? null : median(known);
  };
  const counts = runs.map((run) => run.counts);
  const names = [...new Set(counts.flatMap((each) => Object.keys(each)))];
  return {
    runs: runs.length,
    durationMs: medianOf(({ durationMs }) => durationMs),
    maxRssBytes: medianOf(({ maxRssBytes }) => maxRssBytes),
    outputBytes: medianOf(({ outputBytes }) => outputBytes),
    counts: Object.fromEntries(names.map((name) => [name, median(counts.flatMap((each) => each[name] ?? []))])),
  };
}
