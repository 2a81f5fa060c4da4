import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { ask } from '../queue/contender.ts';
import { runner } from '../root.ts';

/** Jobs of `report/pdf` and `later/reminder` have none, so they wait. */
export const queueHandlers = {
  'queue/mail/welcome.mjs': 'export default async ({ id }) => { console.log("sent", id); return { id }; };\n',
  'queue/mail/invoice.mjs': 'export default async ({ id }) => { if (id % 7 === 0) throw new Error("SMTP 421"); };\n',
  'queue/import/orders.mjs': 'export default async () => {};\n',
};

const REAL_JOBS = 600;
const EVERY_MS = 15 * 60_000;

/** Jobs of all states: 600 are added and processed; what that left is copied, with earlier times. */
export async function generateJobs(root: string, count: number): Promise<void> {
  const real = Math.min(REAL_JOBS, count);
  await ask('ours', 'bulk-mixed', root, real);
  spawnSync(process.execPath, [runner, 'work', 'mail/*', 'import/*'], { cwd: root, stdio: 'ignore' });
  const db = new Sqlite(join(root, '.runner/activity.db'));
  db.pragma('foreign_keys = off');
  db.transaction(() => multiply(db, Math.ceil(count / real)))();
  db.pragma('wal_checkpoint(truncate)');
  db.close();
  closeHours(root);
}

function multiply(db: Sqlite.Database, times: number): void {
  const columnsOf = (table: string, own: Readonly<Record<string, string>>): string => {
    const names = db.prepare(`select name from pragma_table_info('${table}')`).pluck().all() as string[];
    const isInstant = (name: string) => name.endsWith('_at') || name === 'scheduled_for';
    return names.map((name) => own[name] ?? `"${name}"${isInstant(name) ? ' - shift' : ''}`).join(', ');
  };
  db.exec(`create temp table one_jobs as select * from jobs where tier is null;
    create temp table one_runs as select * from runs where job_id in (select id from one_jobs);
    create temp table shifts (jobs_on integer, runs_on integer, shift integer);
    insert into shifts
      with recursive times (n) as (select 1 union all select n + 1 from times where n < ${times - 1})
      select n * (select max(id) from jobs), n * (select max(id) from runs), n * ${EVERY_MS} from times
      where ${times} > 1`);
  const [jobs, runs] = [{ id: 'id + jobs_on' }, { id: 'id + runs_on', job_id: 'job_id + jobs_on' }];
  db.exec(`insert into jobs select ${columnsOf('jobs', jobs)} from shifts cross join one_jobs;
    insert into runs select ${columnsOf('runs', { ...runs, spool_id: 'null' })} from shifts cross join one_runs`);
}

/** Pages show figures of all hours. A pass closes a part of them. */
function closeHours(root: string): void {
  const db = new Sqlite(join(root, '.runner/activity.db'));
  // Set by the first pass, which knew nothing of what was copied.
  db.exec(`delete from chores where name = 'hours'`);
  const closed = db.prepare(`select done_at from chores where name = 'hours'`).pluck();
  let [before, after]: unknown[] = [];
  do {
    before = after;
    spawnSync(process.execPath, [runner, 'empty'], { cwd: root, stdio: 'ignore' });
    after = closed.get();
  } while (after !== before);
  db.close();
}
