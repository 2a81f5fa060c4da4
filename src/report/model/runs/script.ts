import { median } from 'simple-statistics';
import { readMetrics } from '../../../monitor/metrics/read-metrics.ts';
import { type MeasuredRun, usualOf } from '../../../store/statements/monitor/usual.ts';
import type { StoreSession } from '../../../store/store.ts';
import type { LogView } from './run.ts';

/** A content that a script has had. */
export interface ScriptVersion {
  readonly contentHash: string;
  /** When it first ran. */
  readonly firstRunAtMs: number;
}

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

/** What a script's last successful runs come to: medians; null where none of them is known. */
export interface UsualFigures {
  /** How many runs that is known of. */
  readonly runs: number;
  readonly durationMs: number | null;
  readonly maxRssBytes: number | null;
  readonly outputBytes: number | null;
  readonly counts: Readonly<Record<string, number>>;
}

/** As many as tell what is usual now, not what it was last year. */
const USUAL_RUNS = 30;

export async function readUsual({ statements }: StoreSession, script: string, nowMs: number): Promise<UsualFigures> {
  const runs = await usualOf(statements).successes(script, nowMs + 1, USUAL_RUNS);
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

/** What happened of a script on one day of a calendar. */
export interface RunsOfDay {
  /** `2026-11-23`, in the zone that was asked for. */
  readonly date: string;
  readonly runs: number;
  readonly succeeded: number;
  /** Tries that failed, whatever followed. */
  readonly failed: number;
  readonly durationMs: number | null;
  readonly maxDurationMs: number | null;
}

interface CalendarQuery {
  readonly script: string;
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly nowMs: number;
  readonly zone: string;
}

/** Days on which runs ended, the oldest first; also of runs that were pruned since. An hour counts whole. */
export async function readCalendar(session: StoreSession, query: CalendarQuery): Promise<RunsOfDay[]> {
  const { script, sinceMs, untilMs, nowMs, zone } = query;
  const { series } = await readMetrics(session, { period: '1h', sinceMs, untilMs, nowMs, subjects: [script] });
  const format = new Intl.DateTimeFormat('en-CA', { timeZone: zone });
  const days = new Map<string, RunsOfDay>();
  for (const { fromMs, ended, finished, errors, failed, runMs } of series[0]?.buckets ?? []) {
    if (ended === 0) continue;
    const date = format.format(fromMs);
    const day = days.get(date) ?? { date, runs: 0, succeeded: 0, failed: 0, durationMs: null, maxDurationMs: null };
    days.set(date, {
      date,
      runs: day.runs + ended,
      succeeded: day.succeeded + finished,
      failed: day.failed + errors + failed,
      durationMs: runMs.sum === null ? day.durationMs : (day.durationMs ?? 0) + runMs.sum,
      maxDurationMs: runMs.max === null ? day.maxDurationMs : Math.max(day.maxDurationMs ?? 0, runMs.max),
    });
  }
  return [...days.values()];
}
