import { type Kysely, sql } from 'kysely';
import type { ActivityLog, Outcome } from '../store/schema.ts';
import { type RunRecord, type RunWithOutput, runColumns, toRunRecord } from './run-record.ts';
import type { RunFigures } from './summarize-runs.ts';

/** From `sinceMs` up to but not including `untilMs`. */
export interface TimeWindow {
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** For each script that ran in the window, the figures of its runs, from the index `runs_summary` alone. */
export async function selectFigures(
  db: Kysely<ActivityLog>,
  scripts: readonly string[],
  window: TimeWindow,
): Promise<ReadonlyMap<string, readonly RunFigures[]>> {
  const figures = new Map<string, readonly RunFigures[]>();
  for (const script of scripts) {
    const runs = await selectFiguresOf(db, script, window);
    if (runs.length > 0) figures.set(script, runs);
  }
  return figures;
}

async function selectFiguresOf(
  db: Kysely<ActivityLog>,
  script: string,
  window: TimeWindow,
): Promise<RunFigures[]> {
  return await db
    .selectFrom('runs')
    .select([
      'outcome',
      'duration_ms as durationMs',
      'user_cpu_ms as userCpuMs',
      'system_cpu_ms as systemCpuMs',
      'max_rss_bytes as maxRssBytes',
    ])
    .where('script', '=', script)
    .where('started_at', '>=', window.sinceMs)
    .where('started_at', '<', window.untilMs)
    .execute();
}

/** A run as the sparkline needs it. */
export interface RecentRun {
  readonly id: number;
  readonly outcome: Outcome;
  readonly durationMs: number | null;
}

/** The script's newest runs before `untilMs`, newest first, however old they are. */
export async function selectRecentRuns(
  db: Kysely<ActivityLog>,
  script: string,
  untilMs: number,
  limit: number,
): Promise<RecentRun[]> {
  return await db
    .selectFrom('runs')
    .select(['id', 'outcome', 'duration_ms as durationMs'])
    .where('script', '=', script)
    .where('started_at', '<', untilMs)
    .orderBy('started_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

export async function selectRunsById(
  db: Kysely<ActivityLog>,
  ids: readonly number[],
): Promise<RunRecord[]> {
  if (ids.length === 0) return [];
  const query = db.selectFrom('runs').select(runColumns).where('id', 'in', ids);
  return (await query.execute()).map(toRunRecord);
}

/** The last characters that a run wrote; enough for its last line. */
export async function selectOutputEnd(db: Kysely<ActivityLog>, id: number): Promise<string> {
  const query = db
    .selectFrom('runs')
    .select(sql<string | null>`substr(output, -2000)`.as('end'))
    .where('id', '=', id);
  return (await query.executeTakeFirst())?.end ?? '';
}

export interface RunFilter extends TimeWindow {
  readonly outcomes?: readonly Outcome[] | undefined;
  readonly limit?: number | undefined;
}

/** One script's runs in the window, newest first. */
export async function selectRuns(
  db: Kysely<ActivityLog>,
  script: string,
  filter: RunFilter,
): Promise<RunRecord[]> {
  const { outcomes, limit } = filter;
  let query = db
    .selectFrom('runs')
    .select(runColumns)
    .where('script', '=', script)
    .where('started_at', '>=', filter.sinceMs)
    .where('started_at', '<', filter.untilMs)
    .orderBy('started_at', 'desc')
    .orderBy('id', 'desc');
  if (outcomes !== undefined) query = query.where('outcome', 'in', outcomes);
  if (limit !== undefined) query = query.limit(limit);
  return (await query.execute()).map(toRunRecord);
}

export async function selectRun(
  db: Kysely<ActivityLog>,
  id: number,
): Promise<RunWithOutput | null> {
  const query = db.selectFrom('runs').select([...runColumns, 'output', 'output_file']);
  const row = await query.where('id', '=', id).executeTakeFirst();
  if (row === undefined) return null;
  return { ...toRunRecord(row), output: row.output, outputFile: row.output_file };
}

/** The script's newest run, or null when it never ran. */
export async function selectNewestRun(
  db: Kysely<ActivityLog>,
  script: string,
): Promise<RunWithOutput | null> {
  const [newest] = await selectRecentRuns(db, script, Number.MAX_SAFE_INTEGER, 1);
  return newest === undefined ? null : await selectRun(db, newest.id);
}

/** The newest run of all, or null in an empty log. */
export async function selectHighestRunId(db: Kysely<ActivityLog>): Promise<number | null> {
  const query = db.selectFrom('runs').select((build) => build.fn.max('id').as('id'));
  return (await query.executeTakeFirst())?.id ?? null;
}
