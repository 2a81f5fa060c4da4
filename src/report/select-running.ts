import { type Kysely, sql } from 'kysely';
import { checkLiveness, type Liveness } from '../process/process-identity.ts';
import type { ActivityLog } from '../store/schema.ts';

/** A run that has not ended yet, as far as the log knows. */
export interface RunningRun {
  readonly id: number;
  readonly script: string;
  readonly startedAtMs: number;
  readonly pid: number | null;
  readonly host: string;
  /**
   * `dead`: its runner and its process are both gone, so that it was cut off by a crash that the
   * next pass will record.
   */
  readonly liveness: Liveness;
}

export async function selectRunning(db: Kysely<ActivityLog>): Promise<RunningRun[]> {
  const rows = await runningRuns(db).execute();
  // Sorted here: asked to sort, SQLite walks the index of all runs by time instead.
  const oldestFirst = rows.toSorted((one, other) => one.started_at - other.started_at);
  return oldestFirst.map((row) => ({
    id: row.id,
    script: row.script,
    startedAtMs: row.started_at,
    pid: row.pid,
    host: row.host,
    liveness: livenessOf(row),
  }));
}

/** Whether the run goes on, to the best of what can be seen from here. */
export async function isStillRunning(db: Kysely<ActivityLog>, id: number): Promise<boolean> {
  const row = await runningRuns(db).where('runs.id', '=', id).executeTakeFirst();
  return row !== undefined && livenessOf(row) !== 'dead';
}

function runningRuns(db: Kysely<ActivityLog>) {
  return (
    db
      .selectFrom('runs')
      .innerJoin('workers', 'workers.id', 'runs.worker_id')
      .select([
        'runs.id',
        'runs.script',
        'runs.started_at',
        'runs.pid',
        'runs.pid_start_ticks',
        'workers.host',
        'workers.boot_id',
        'workers.pid as worker_pid',
        'workers.pid_start_ticks as worker_start_ticks',
      ])
      // A literal: with a bound value SQLite cannot tell that the partial index holds all of them.
      .where('runs.outcome', '=', sql.lit('running' as const))
  );
}

interface RunningRow {
  readonly host: string;
  readonly boot_id: string | null;
  readonly worker_pid: number;
  readonly worker_start_ticks: number | null;
  readonly pid: number | null;
  readonly pid_start_ticks: number | null;
}

/** A script can outlive its runner, and goes on writing its output when it does. */
function livenessOf(row: RunningRow): Liveness {
  const { host, boot_id: bootId } = row;
  const worker = { host, bootId, pid: row.worker_pid, startTicks: row.worker_start_ticks };
  const ofWorker = checkLiveness(worker);
  if (ofWorker !== 'dead' || row.pid === null) return ofWorker;
  return checkLiveness({ host, bootId, pid: row.pid, startTicks: row.pid_start_ticks });
}
