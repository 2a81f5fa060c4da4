import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { runner } from '../root.ts';

const DAY_MS = 864e5;
const periods: Readonly<Record<string, number>> = { '15min': 9e5, hourly: 36e5, daily: DAY_MS };

/**
 * The log of a root in which `runs` scripts have run: each tier is called once, and what that left is copied,
 * once for each earlier period. All that the bench knows of the tables is here.
 */
export function generateLog(root: string, runs: number): { readonly days: number } {
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
    duration_ms: 'row.duration_ms * (1 + abs(random()) % 1000 / 500.0)',
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
