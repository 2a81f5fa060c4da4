import { type Kysely, sql } from 'kysely';
import { type ActivityLog, isFailure, type Outcome } from '../../store/schema.ts';
import { type RunRecord, type RunWithOutput, runColumns, toRunRecord } from './run.ts';

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

/** What a summary needs of one run; the index `runs_summary` holds just this. */
export interface RunFigures {
  readonly outcome: Outcome;
  readonly durationMs: number | null;
  readonly userCpuMs: number | null;
  readonly systemCpuMs: number | null;
  readonly maxRssBytes: number | null;
}

/** How many runs there were and how they ended. Unknown is null: no figure of any run was known. */
export interface Totals {
  /** All that started, the running ones included. */
  readonly runs: number;
  readonly succeeded: number;
  /** All that ended in any other way, but for the released ones. */
  readonly failed: number;
  /** Those whose job was given back: they say nothing of success or failure. */
  readonly released: number;
  /** Of those that succeeded or failed, the share that succeeded: 0 to 1. */
  readonly successRate: number | null;
  readonly totalDurationMs: number | null;
  readonly totalCpuMs: number | null;
  /** The largest peak. */
  readonly maxRssBytes: number | null;
}

/** What one script's runs amount to. */
export interface Summary extends Totals {
  readonly p50DurationMs: number | null;
  readonly p95DurationMs: number | null;
  readonly maxDurationMs: number | null;
  /** What a usual run takes: the median of user and system time together. */
  readonly cpuMs: number | null;
}

export function summarizeRuns(runs: readonly RunFigures[]): Summary {
  const succeeded = countOutcomes(runs, (outcome) => outcome === 'succeeded');
  const failed = countOutcomes(runs, isFailure);
  const durations = sorted(runs.map((run) => run.durationMs));
  const cpu = sorted(runs.map(cpuOf));
  return {
    runs: runs.length,
    succeeded,
    failed,
    released: countOutcomes(runs, (outcome) => outcome === 'released'),
    successRate: rate(succeeded, failed),
    p50DurationMs: nearestRank(durations, 0.5),
    p95DurationMs: nearestRank(durations, 0.95),
    maxDurationMs: nearestRank(durations, 1),
    cpuMs: nearestRank(cpu, 0.5),
    maxRssBytes: nearestRank(sorted(runs.map((run) => run.maxRssBytes)), 1),
    totalDurationMs: sumOf(durations),
    totalCpuMs: sumOf(cpu),
  };
}

/** What all scripts' runs amount to. */
export function addUp(summaries: readonly Summary[]): Totals {
  const sum = (figure: keyof Totals): number | null => sumOf(known(summaries, figure));
  const succeeded = sum('succeeded') ?? 0;
  const failed = sum('failed') ?? 0;
  return {
    runs: sum('runs') ?? 0,
    succeeded,
    failed,
    released: sum('released') ?? 0,
    successRate: rate(succeeded, failed),
    totalDurationMs: sum('totalDurationMs'),
    totalCpuMs: sum('totalCpuMs'),
    maxRssBytes: nearestRank(known(summaries, 'maxRssBytes').sort(), 1),
  };
}

/**
 * The smallest value that at least this share of all values do not exceed. Always one that was
 * really measured; null without values.
 */
export function nearestRank(ascending: Float64Array, share: number): number | null {
  return ascending[Math.max(0, Math.ceil(ascending.length * share) - 1)] ?? null;
}

function countOutcomes(
  runs: readonly RunFigures[],
  isCounted: (outcome: Outcome) => boolean,
): number {
  return runs.reduce((count, { outcome }) => count + Number(isCounted(outcome)), 0);
}

function rate(succeeded: number, failed: number): number | null {
  return succeeded + failed === 0 ? null : succeeded / (succeeded + failed);
}

function cpuOf(run: RunFigures): number | null {
  if (run.userCpuMs === null || run.systemCpuMs === null) return null;
  return roundToMicroseconds(run.userCpuMs + run.systemCpuMs);
}

function known(summaries: readonly Summary[], figure: keyof Totals): Float64Array {
  return Float64Array.from(summaries.flatMap((summary) => summary[figure] ?? []));
}

/** A typed array sorts by number, and several times faster. */
function sorted(values: readonly (number | null)[]): Float64Array {
  return Float64Array.from(values.filter((value) => value !== null)).sort();
}

function sumOf(values: Float64Array): number | null {
  if (values.length === 0) return null;
  return roundToMicroseconds(values.reduce((sum, value) => sum + value, 0));
}

/** 0.1 + 0.2 must not be shown as 0.30000000000000004. */
function roundToMicroseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/** Every script that the log knows. */
export function selectScriptNames(db: Kysely<ActivityLog>): Promise<string[]> {
  return selectDistinct(db, 'runs', 'script');
}

/** Every tier that the log knows. */
export function selectTierNames(db: Kysely<ActivityLog>): Promise<string[]> {
  return selectDistinct(db, 'workers', 'tier');
}

/**
 * Each step jumps to the next name in the index, where a plain `distinct` would read all of it: with
 * a million runs 1 ms instead of 100.
 */
async function selectDistinct(
  db: Kysely<ActivityLog>,
  tableName: 'runs' | 'workers',
  columnName: 'script' | 'tier',
): Promise<string[]> {
  const [table, column] = [sql.table(tableName), sql.ref(columnName)];
  const { rows } = await sql<{ name: string }>`
    with recursive names (name) as (
      select min(${column}) from ${table}
      union all
      select (select min(${column}) from ${table} where ${column} > names.name)
      from names where names.name is not null
    )
    select name from names where name is not null`.execute(db);
  return rows.map(({ name }) => name);
}
