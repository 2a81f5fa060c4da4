import { spawnSync } from 'node:child_process';
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { Bench } from '../bench.ts';
import { makeRoot, runner, scriptsOf } from '../root.ts';
import { generateJobs, queueHandlers } from './generate-jobs.ts';

const DAY_MS = 864e5;
const periods: Readonly<Record<string, number>> = { '15min': 9e5, hourly: 36e5, daily: DAY_MS };

/** 50 scripts, which run 2,756 times a day: the days that the runs reach back follow from that. */
const scripts = {
  ...scriptsOf('15min', 28, ''),
  ...scriptsOf('hourly', 2, ''),
  ...scriptsOf('daily', 20, ''),
  '15min/s07.cjs': 'process.exitCode = 1;\n',
  'empty/.keep': '',
};

/** The same runs a day in each: only what lies outside of the last days grows. */
export const sizes = [10_000, 100_000, 1_000_000] as const;

const roots = new Map<string, Promise<string>>();

/** A folder in which roots stay for the next bench. */
const kept = process.env.BENCH_LOGS;

/** A root with so many runs and jobs in its log, made when it is first asked for. */
export function rootWithRuns(bench: Bench, size: number, jobs = 0): Promise<string> {
  const name = `${bench.scaled(size)}-runs${jobs === 0 ? '' : `-${bench.scaled(jobs)}-jobs`}`;
  const known = roots.get(name) ?? findOrFill(bench, name, size, jobs);
  roots.set(name, known);
  return known;
}

async function findOrFill(bench: Bench, name: string, size: number, jobs: number): Promise<string> {
  const place = kept && join(kept, name);
  if (place && existsSync(place)) return place;
  const root = makeRoot(kept || bench.disk, jobs === 0 ? scripts : { ...scripts, ...queueHandlers });
  const startMs = performance.now();
  const runs = bench.scaled(size);
  const { days } = generateLog(root, runs);
  if (jobs > 0) await generateJobs(root, bench.scaled(jobs));
  const seconds = (performance.now() - startMs) / 1000;
  bench.say(`${runs} runs over ${days.toFixed(0)} days and ${jobs} jobs, made in ${seconds.toFixed(0)} s`);
  if (!place) return root;
  renameSync(root, place);
  return place;
}

/**
 * The log of a root in which `runs` scripts have run: each tier is called once, and what that left is copied,
 * once for each earlier period. What chores there are to do is in `chores.ts`.
 */
function generateLog(root: string, runs: number): { readonly days: number } {
  for (const tier of Object.keys(periods)) {
    spawnSync(process.execPath, [runner, tier], { cwd: root, stdio: 'ignore' });
  }
  const db = new Sqlite(join(root, '.runner/activity.db'));
  db.pragma('foreign_keys = off');
  db.pragma('synchronous = off');
  db.pragma('temp_store = memory');
  const days = db.transaction(() => multiply(db, runs))();
  db.pragma('wal_checkpoint(truncate)');
  db.close();
  return { days };
}

function multiply(db: Sqlite.Database, runs: number): number {
  for (const table of ['workers', 'runs']) {
    db.exec(`create temp table one_${table} as select * from ${table}; delete from ${table}`);
  }
  db.exec('delete from events; create temp table periods (tier, ms)');
  const addPeriod = db.prepare('insert into periods values (?, ?)');
  for (const period of Object.entries(periods)) addPeriod.run(...period);
  const perDay = db
    .prepare(
      `select sum(${DAY_MS} / ms) from one_runs
      join one_workers on one_workers.id = worker_id join periods using (tier)`,
    )
    .pluck()
    .get() as number;
  const days = runs / perDay;
  // Which row is copied, and how much earlier; numbered in the order of time, as the runner numbers them.
  db.exec(`create temp table passes (number integer primary key, one integer, shift integer);
    insert into passes (one, shift)
      with recursive times (n) as (select 0 union all select n + 1 from times where n < ${days} * 96)
      select id, n * ms from times join periods join one_workers using (tier)
      where n * ms < ${days * DAY_MS} order by started_at - n * ms;
    create temp table history (number integer primary key, one integer, pass integer, shift integer);
    insert into history (one, pass, shift)
      select one_runs.id, passes.number, shift
      from passes join one_runs on one_runs.worker_id = passes.one order by started_at - shift`);
  copy(db, 'workers', 'passes join one_workers row on row.id = one', { id: 'number' });
  copy(db, 'runs', 'history join one_runs row on row.id = one', {
    id: 'number',
    worker_id: 'pass',
    duration_us: 'cast(row.duration_us * (1 + abs(random()) % 1000 / 500.0) as integer)',
  });
  return days;
}

/** All columns as they are, instants earlier, and what is named here as it says. */
function copy(db: Sqlite.Database, table: string, from: string, expressions: Readonly<Record<string, string>>): void {
  const columns = db.prepare(`select name from pragma_table_info('${table}')`).pluck().all();
  const expressionOf = (column: string): string => {
    const isInstant = column.endsWith('_at') || column === 'scheduled_for';
    return expressions[column] ?? `row."${column}"${isInstant ? ' - shift' : ''}`;
  };
  const values = (columns as string[]).map(expressionOf);
  db.exec(`insert into ${table} select ${values.join(', ')} from ${from} order by number`);
}
