import type {
  CheckStore,
  CrashedWorkerRow,
  DueJobsRow,
  RunningRow,
  ScriptStandRow,
  TierCallRow,
  WorkerIdentityRow,
} from '../../../contract/metrics.ts';
import type { Sync } from '../../../shared/areas.ts';
import { OF_RUNS } from '../../../words.ts';
import type { SqliteStatements } from '../../session.ts';

/** Apart from the other areas, as no call needs them but the few that look after the others. */
export function sqliteChecks(db: SqliteStatements): Sync<CheckStore> {
  return {
    tiers: () => tiers(db),
    firstCall: () =>
      db.first<{ at: number }>(
        `select started_at as at from workers where kind = 'tier' and triggered_by <> 'manual' order by id limit 1`,
      )?.at ?? null,
    scripts: () =>
      db.all<ScriptStandRow>(
        `select name, tier, state, run_at as runAt, started_at as startedAt, created_at as createdAt, reason
         from jobs indexed by jobs_of_scripts where tier is not null order by name`,
      ),
    running: () =>
      db.all<RunningRow>(
        `select runs.id, scripts.name as script, runs.started_at as startedAt, timeout_ms as timeoutMs,
           workers.pid, workers.pid_start_ticks as startTicks, host, boot_id as bootId
         from runs join workers on workers.id = worker_id join hosts on hosts.id = host_id
           join scripts on scripts.id = script_id
         where outcome = 'running' order by runs.started_at`,
      ),
    due: (at, limit) => due(db, at, limit),
    ended: (state, since, limit) =>
      db.first<{ jobs: number }>(
        `select count(*) as jobs from (select 1 from jobs where state = ? and finished_at >= ?
           and finished_at is not null and tier is null limit ?)`,
        [state, since, limit],
      )?.jobs ?? 0,
    lastQueueWork: () =>
      db.first<{ at: number }>(
        'select started_at as at from workers where tier is null order by started_at desc limit 1',
      )?.at ?? null,
    queueWorkers: () =>
      db.all<WorkerIdentityRow>(
        `select pid, pid_start_ticks as startTicks, host, boot_id as bootId
         from workers join hosts on hosts.id = host_id where state = 'running' and tier is null`,
      ),
    isClaimedOutside: () =>
      db.first(
        `select 1 from jobs where claim_token is not null and instr(claim_token, '.') = 0 and tier is null limit 1`,
      ) !== undefined,
    hasIncidents: () =>
      db.first(`select 1 from incidents where recovered_at is null and code not in (${OF_RUNS}) limit 1`) !== undefined,
    crashed: (since) =>
      db.all<CrashedWorkerRow>(
        `select tier, finished_at as finishedAt, reason from workers
         where state = 'crashed' and finished_at >= ? order by finished_at desc limit 1000`,
        [since],
      ),
  };
}

/**
 * Takes one step into the index for each tier, and orders by number: the clock may have been set back. The calls that
 * found the lock held are counted since the last pass that had the lock or the last call that was skipped for another
 * reason. One call counts for each period: a person who starts eight passes at once has not waited for eight.
 */
function tiers(db: SqliteStatements): TierCallRow[] {
  const ofTier = `from workers where kind = 'tier' and tier = tiers.name`;
  const rows = db.all<Omit<TierCallRow, 'isDue'> & { readonly isDue: number | null }>(
    `with recursive tiers (name) as (
       select min(tier) from workers
       union all
       select (select min(tier) from workers where tier > tiers.name) from tiers where name is not null),
     passes as materialized (select name,
       (select id ${ofTier} and triggered_by <> 'manual' order by id desc limit 1) as called,
       (select id ${ofTier} and skip_code is not 'held' order by id desc limit 1) as passed
       from tiers where name is not null)
     select tiers.name as tier, call.started_at as calledAt, call.triggered_by = 'due' as isDue,
       (select count(distinct coalesce(scheduled_for, -id)) ${ofTier} and id > coalesce(passed, 0)) as held,
       (select min(started_at) ${ofTier} and id > coalesce(passed, 0)) as heldSince
     from passes as tiers left join workers as call on call.id = called`,
  );
  return rows.map((row) => ({ ...row, isDue: row.isDue === 1 }));
}

/**
 * Counts ready, blocked and waiting jobs: a job whose time has come stays among those that are not ready until a worker
 * looks for work.
 */
function due(db: SqliteStatements, at: number, limit: number): DueJobsRow[] {
  return db.all<DueJobsRow>(
    `select name, count(*) as jobs, min(run_at) as oldest from (
       select name, run_at from (select name, run_at from jobs where ready = 1 limit ?)
       union all
       select name, run_at from (select name, run_at from jobs where ready = 2 limit ?)
       union all
       select name, run_at from (select name, run_at from jobs where ready = 0 and run_at <= ? limit ?))
     group by name order by jobs desc, name`,
    [limit, limit, at, limit],
  );
}
