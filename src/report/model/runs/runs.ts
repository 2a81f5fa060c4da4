import { type ExpressionBuilder, type Kysely, type RawBuilder, SqliteAdapter, sql } from 'kysely';
import type { LogView } from '../../../discovery/site.ts';
import type { ActivityLog, RunRow } from '../../../store/schema.ts';
import type { ContentChange } from '../../../store/statements/monitor/usual.ts';
import { isFailure, type Outcome } from '../../../store/words.ts';
import { record, shown, type Values } from '../../../system/base/record.ts';
import { inPages, toMillis } from '../../../system/base/values.ts';
import { outcomeField, type RunRecord, selectRecords } from './run.ts';

/** From `sinceMs` up to but not including `untilMs`. */
export interface TimeWindow {
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** Figures of one script's runs. Times are whole microseconds, in ascending order; unknown ones are left out. */
export interface RunFigures {
  readonly runs: number;
  /** How each of those ended that did not succeed, or that it has not ended. */
  readonly others: readonly Outcome[];
  readonly durations: Float64Array;
  /** User and system time together. */
  readonly cpu: Float64Array;
  readonly maxRssBytes: number | null;
}

/** Figures of a script that did not run. */
export const noFigures: RunFigures = {
  runs: 0,
  others: [],
  durations: new Float64Array(),
  cpu: new Float64Array(),
  maxRssBytes: null,
};

export function countOutcome({ runs, others }: RunFigures, outcome: Outcome): number {
  if (outcome === 'succeeded') return runs - others.length;
  return others.filter((other) => other === outcome).length;
}

/** As SQLite's index of runs by script has it: spelled otherwise, each run would be read from its table. */
const cpuUs = sql`user_cpu_us + system_cpu_us`;

/** All values of a column that are known as one text: of a file, a row for each run takes twice as long to read. */
const allOf = (column: RawBuilder<unknown>) =>
  sql<string>`json_group_array(${column}) filter (where ${column} is not null)`;

/**
 * For each script that ran in the window, the figures of its runs, read from an index alone. Percentiles are not
 * asked of SQL: not every driver's SQLite has them, and a typed array is sorted as fast.
 */
export async function selectFigures(
  db: Kysely<ActivityLog>,
  { sinceMs, untilMs }: TimeWindow,
  script?: string,
): Promise<ReadonlyMap<string, RunFigures>> {
  const isWanted = sql`script_id = scripts.id and started_at >= ${sinceMs} and started_at < ${untilMs}
    and ${isOf(script)}`;
  if (!(db.getExecutor().adapter instanceof SqliteAdapter)) return await selectEachFigure(db, isWanted);
  // `cross join` keeps SQLite from beginning with the runs, all of which it would read.
  const { rows } = await sql<FigureColumns>`
    select scripts.name as script, count(*) as runs, max(max_rss_bytes) as "maxRssBytes",
      json_group_array(outcome) filter (where outcome <> 'succeeded') as others,
      ${allOf(sql`duration_us`)} as durations, ${allOf(cpuUs)} as cpu
    from scripts cross join runs where ${isWanted} group by scripts.id`.execute(db);
  return new Map(rows.map(({ script, ...columns }) => [script, readFigures(columns)]));
}

interface FigureRow
  extends Pick<RunRow, 'outcome' | 'duration_us' | 'user_cpu_us' | 'system_cpu_us' | 'max_rss_bytes'> {
  readonly script: string;
}

/** Servers bound how long a text may become that they make of many rows. */
async function selectEachFigure(
  db: Kysely<ActivityLog>,
  isWanted: RawBuilder<unknown>,
): Promise<ReadonlyMap<string, RunFigures>> {
  const { rows } = await sql<FigureRow>`
    select scripts.name as script, outcome, duration_us, user_cpu_us, system_cpu_us, max_rss_bytes
    from scripts cross join runs where ${isWanted}`.execute(db);
  const byScript = Map.groupBy(rows, (row) => row.script);
  return new Map([...byScript].map(([name, runs]) => [name, figuresOf(runs)]));
}

function figuresOf(rows: readonly FigureRow[]): RunFigures {
  const known = (figures: readonly (number | null)[]): number[] => figures.flatMap((figure) => figure ?? []);
  const peaks = known(rows.map((row) => row.max_rss_bytes));
  return {
    runs: rows.length,
    others: rows.flatMap(({ outcome }) => (outcome === 'succeeded' ? [] : [outcome])),
    durations: sorted(known(rows.map((row) => row.duration_us))),
    cpu: sorted(
      known(
        rows.map(({ user_cpu_us: user, system_cpu_us: system }) =>
          user === null || system === null ? null : user + system,
        ),
      ),
    ),
    maxRssBytes: peaks.length === 0 ? null : peaks.reduce((one, other) => Math.max(one, other)),
  };
}

/** Limits runs to one script; undefined: all scripts. */
const isOf = (script: string | undefined) => (script === undefined ? sql`true` : sql`scripts.name = ${script}`);

interface FigureColumns extends Pick<RunFigures, 'runs' | 'maxRssBytes'> {
  readonly script: string;
  /** Arrays in JSON. */
  readonly others: string;
  readonly durations: string;
  readonly cpu: string;
}

function readFigures({ runs, maxRssBytes, others, durations, cpu }: Omit<FigureColumns, 'script'>): RunFigures {
  const read = <Value>(text: string): Value[] => JSON.parse(text) as Value[];
  return { runs, maxRssBytes, others: read(others), durations: sorted(read(durations)), cpu: sorted(read(cpu)) };
}

/** A run as the sparkline needs it. */
export const recentRunRecord = record(null, {
  id: shown.integer,
  outcome: outcomeField,
  durationMs: shown.number.orNull,
});

export type RecentRun = Values<typeof recentRunRecord>;

type RecentRow = Pick<RunRow, 'script_id' | 'id' | 'outcome' | 'duration_us'>;

/** Selects the newest runs before `untilMs` of every script, newest first, however old they are. */
export async function selectRecentRuns(
  db: Kysely<ActivityLog>,
  untilMs: number,
  limit: number,
  script?: string,
): Promise<ReadonlyMap<string, readonly RecentRun[]>> {
  const { rows: scripts } = await sql<{ id: number; name: string }>`
    select id, name from scripts where ${isOf(script)}`.execute(db);
  const recent = new Map<string, RecentRun[]>();
  for (const page of inPages(scripts)) {
    const names = new Map(page.map(({ id, name }) => [id, name]));
    const newest = sql.join(
      [...names.keys()].map((id) => newestOf(id, untilMs, limit)),
      sql` union all `,
    );
    const { rows } = await sql<RecentRow>`${newest}`.execute(db);
    for (const [id, runs] of Map.groupBy(rows, ({ script_id }) => script_id)) {
      const toRun = ({ id, outcome, duration_us }: RecentRow) => ({ id, outcome, durationMs: toMillis(duration_us) });
      recent.set(names.get(id) as string, runs.map(toRun));
    }
  }
  return recent;
}

/** Servers would look for the bound of each script's runs once for each of them, if that were asked for all at once. */
function newestOf(scriptId: number, untilMs: number, limit: number): RawBuilder<unknown> {
  // Only MySQL and MariaDB read this comment. It keeps them from going through the runs of all scripts, which are in
  // order, too.
  return sql`select * from (
    select script_id, id, outcome, duration_us
    from runs /*! force index (runs_by_script) */ where script_id = ${scriptId} and started_at < ${untilMs}
    order by started_at desc, id desc limit ${limit}) as newest`;
}

export async function selectRunsById(log: LogView, ids: readonly number[]): Promise<RunRecord[]> {
  const found: RunRecord[] = [];
  for (const page of inPages(ids)) {
    found.push(...(await selectRecords(log, (runs) => runs.where('runs.id', 'in', page))));
  }
  return found;
}

export interface RunFilter extends TimeWindow {
  readonly outcomes?: readonly Outcome[] | undefined;
  readonly limit?: number | undefined;
}

/** One script's runs in the window, newest first. */
async function selectRuns(
  log: LogView,
  script: string,
  { sinceMs, untilMs, outcomes, limit }: RunFilter,
): Promise<RunRecord[]> {
  return await selectRecords(log, (runs) => {
    const inWindow = runs
      .where('scripts.name', '=', script)
      .where('runs.started_at', '>=', sinceMs)
      .where('runs.started_at', '<', untilMs)
      .orderBy('runs.started_at', 'desc')
      .orderBy('runs.id', 'desc');
    const wanted = outcomes === undefined ? inWindow : inWindow.where('runs.outcome', 'in', outcomes);
    return limit === undefined ? wanted : wanted.limit(limit);
  });
}

/** A run with what it has written. */
export interface RunWithOutput extends RunRecord {
  /** Head and tail, as the log holds them; null: unknown. */
  readonly output: string | null;
  /** The compressed file that holds all that was kept, where the log could not. */
  readonly outputFile: string | null;
  /** By which its files are called as long as it has no end in the log. */
  readonly filesKey: string | null;
  /** The machine that ran it; null: unknown. */
  readonly host: string | null;
  /** The person who started it; null: nobody did. */
  readonly startedBy: string | null;
  /** The person who has asked for its end; null: nobody has. */
  readonly stoppedBy: string | null;
  /** The change of content since the script last succeeded, if the run failed. */
  readonly change: ContentChange | null;
}

export async function selectRun(log: LogView, id: number): Promise<RunWithOutput | null> {
  const [run] = await selectRunsById(log, [id]);
  const written = await log.db
    .selectFrom('runs')
    .leftJoin('outputs', 'outputs.run_id', 'runs.id')
    .leftJoin('workers', 'workers.id', 'runs.worker_id')
    .leftJoin('hosts', 'hosts.id', 'workers.host_id')
    .select(['runs.outcome', 'output', 'output_bytes', 'output_file', 'worker_id', 'claim_number', 'hosts.host'])
    .select((run) => ['workers.actor as startedBy', whoStops(run).as('stoppedBy')])
    .where('runs.id', '=', id)
    .executeTakeFirst();
  if (run === undefined || written === undefined) return null;
  const { outcome, output_file: outputFile, worker_id, claim_number, host, startedBy, stoppedBy } = written;
  // A run that printed nothing has no row. If the number of its bytes is unknown, its output is unknown, too.
  const output = written.output ?? (written.output_bytes === 0 ? '' : null);
  const hasFiles = outcome === 'running' && worker_id !== null;
  const filesKey = hasFiles ? `${worker_id}.${claim_number}` : null;
  return { ...run, output, outputFile, filesKey, host, startedBy, stoppedBy, change: await selectChange(log, run) };
}

/** The first person who asked for the end of a run. */
function whoStops(run: ExpressionBuilder<ActivityLog, 'runs'>) {
  return run
    .selectFrom('events')
    .select('actor')
    .whereRef('events.job_id', '=', 'runs.job_id')
    .whereRef('events.run_id', '=', 'runs.id')
    .where('event', '=', 'run-stop-requested')
    .orderBy('events.id')
    .limit(1);
}

/**
 * A run that was asked to end, as it stands now. If its job was not kept, nobody knows more than that it has ended.
 *
 * @param seen the run before that
 */
export async function selectStopped(log: LogView, seen: RunRecord): Promise<RunRecord> {
  const [run] = await selectRunsById(log, [seen.id]);
  // The number of a deleted run is given to another one.
  if (run !== undefined && run.startedAtMs === seen.startedAtMs) return run;
  return { ...seen, outcome: 'stopped', reason: 'stopped, and not kept' };
}

interface StartedBy {
  readonly script: string;
  /** The process of its runner. */
  readonly pid: number;
  readonly host: string;
  /** It has begun since then; UTC epoch milliseconds. */
  readonly sinceMs: number;
}

/** The newest run that this runner has begun; null: it has begun none. */
export async function selectRunOfProcess(
  log: LogView,
  { script, pid, host, sinceMs }: StartedBy,
): Promise<number | null> {
  const run = await log.db
    .selectFrom('runs')
    .innerJoin('scripts', 'scripts.id', 'runs.script_id')
    .innerJoin('workers', 'workers.id', 'runs.worker_id')
    .innerJoin('hosts', 'hosts.id', 'workers.host_id')
    .select(['runs.id', 'workers.pid', 'hosts.host'])
    .where('scripts.name', '=', script)
    .where('runs.started_at', '>=', sinceMs)
    .orderBy('runs.started_at', 'desc')
    .orderBy('runs.id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return run?.pid === pid && run.host === host ? run.id : null;
}

/** The change of a failed run's script since it last succeeded; null: the content was the same. */
export async function selectChange(log: LogView, run: RunRecord): Promise<ContentChange | null> {
  const { script, contentHash, startedAtMs } = run;
  if (!isFailure(run.outcome) || contentHash === null) return null;
  const success = await selectNewestRun(log, script, { untilMs: startedAtMs + 1, outcomes: ['succeeded'] });
  if (success === null || success.contentHash === null || success.contentHash === contentHash) return null;
  const first = await log.db
    .selectFrom('runs')
    .innerJoin('scripts', 'scripts.id', 'runs.script_id')
    .innerJoin('script_versions', 'script_versions.id', 'runs.version_id')
    .select('runs.started_at as startedAtMs')
    .where('scripts.name', '=', script)
    .where('runs.started_at', '>=', success.startedAtMs)
    .where('script_versions.content_hash', '=', contentHash)
    .orderBy('runs.started_at')
    .limit(1)
    .executeTakeFirst();
  return { changedAt: first?.startedAtMs ?? startedAtMs, lastSuccessAt: success.startedAtMs };
}

/** The script's newest run before that instant, or its newest one that succeeded; null: it has none. */
export async function selectNewestRun(
  log: LogView,
  script: string,
  { untilMs = Number.MAX_SAFE_INTEGER, outcomes }: Partial<RunFilter> = {},
): Promise<RunRecord | null> {
  const [newest] = await selectRuns(log, script, { sinceMs: 0, untilMs, outcomes, limit: 1 });
  return newest ?? null;
}

/** The newest run of all, or null in an empty log. */
export async function selectHighestRunId(db: Kysely<ActivityLog>): Promise<number | null> {
  const query = db.selectFrom('runs').select(({ fn }) => fn.max('id').as('id'));
  return (await query.executeTakeFirst())?.id ?? null;
}

/** Every script that the log knows. */
export async function selectScriptNames(db: Kysely<ActivityLog>): Promise<string[]> {
  const rows = await db.selectFrom('scripts').select('name').orderBy('name').execute();
  return rows.map(({ name }) => name);
}

/** How many runs there were and how they ended; unknown: no figure of any run was known. */
const counted = {
  /** All that started, the running ones included. */
  runs: shown.integer,
  succeeded: shown.integer,
  /** All that ended in any other way, but for the released and the stopped ones. */
  failed: shown.integer,
  /** Those whose job was given back: they say nothing of success or failure. */
  released: shown.integer,
  /** Those that somebody has stopped: they say nothing of it either. */
  stopped: shown.integer,
  /** Share of successes among runs that succeeded or failed: 0 to 1. */
  successRate: shown.number.orNull,
};

export const totalsRecord = record(null, {
  ...counted,
  durationMs: shown.number.orNull.from('totalDurationMs'),
  cpuMs: shown.number.orNull.from('totalCpuMs'),
  /** The largest peak. */
  maxRssBytes: shown.number.orNull,
});

export type Totals = Values<typeof totalsRecord>;

/** Figures of one script's runs. */
export const summaryRecord = record(null, {
  ...counted,
  p50DurationMs: shown.number.orNull,
  p95DurationMs: shown.number.orNull,
  maxDurationMs: shown.number.orNull,
  totalDurationMs: shown.number.orNull,
  /** Usual CPU time of a run: the median of user and system time together. */
  cpuMs: shown.number.orNull,
  totalCpuMs: shown.number.orNull,
  /** The largest peak. */
  maxRssBytes: shown.number.orNull,
});

export type Summary = Values<typeof summaryRecord>;

export function summarizeRuns(figures: RunFigures): Summary {
  const { runs, others, durations, cpu, maxRssBytes } = figures;
  const succeeded = countOutcome(figures, 'succeeded');
  const failed = others.filter(isFailure).length;
  return {
    runs,
    succeeded,
    failed,
    released: countOutcome(figures, 'released'),
    stopped: countOutcome(figures, 'stopped'),
    successRate: rate(succeeded, failed),
    p50DurationMs: toMs(nearestRank(durations, 0.5)),
    p95DurationMs: toMs(nearestRank(durations, 0.95)),
    maxDurationMs: toMs(nearestRank(durations, 1)),
    cpuMs: toMs(nearestRank(cpu, 0.5)),
    maxRssBytes,
    totalDurationMs: toMs(sumOf(durations)),
    totalCpuMs: toMs(sumOf(cpu)),
  };
}

/** Adds up the figures of all scripts. */
export function addUp(summaries: readonly Summary[]): Totals {
  const sum = (figure: keyof Totals): number | null => {
    const total = sumOf(known(summaries, figure));
    // 0.1 + 0.2 must not be shown as 0.30000000000000004.
    return total === null ? null : Math.round(total * 1000) / 1000;
  };
  const succeeded = sum('succeeded') ?? 0;
  const failed = sum('failed') ?? 0;
  return {
    runs: sum('runs') ?? 0,
    succeeded,
    failed,
    released: sum('released') ?? 0,
    stopped: sum('stopped') ?? 0,
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

function rate(succeeded: number, failed: number): number | null {
  return succeeded + failed === 0 ? null : succeeded / (succeeded + failed);
}

function known(summaries: readonly Summary[], figure: keyof Totals): Float64Array {
  return Float64Array.from(summaries.flatMap((summary) => summary[figure] ?? []));
}

/** A typed array sorts by number, and several times faster. */
function sorted(values: readonly number[]): Float64Array {
  return new Float64Array(values).sort();
}

function sumOf(values: Float64Array): number | null {
  if (values.length === 0) return null;
  let sum = 0;
  for (let index = 0; index < values.length; index += 1) sum += values[index] as number;
  return sum;
}

function toMs(microseconds: number | null): number | null {
  return microseconds === null ? null : microseconds / 1000;
}

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

/** One script's runs, as far as they fit the filter. */
export async function readScriptRuns(view: LogView, script: string, filter: RunFilter): Promise<ScriptRuns> {
  const { sinceMs, untilMs, limit } = filter;
  // One more than asked for tells whether there are more.
  const runs = await selectRuns(view, script, { ...filter, limit: limit === undefined ? undefined : limit + 1 });
  const isCut = limit !== undefined && runs.length > limit;
  return { script, sinceMs, untilMs, runs: runs.slice(0, limit), isCut };
}
