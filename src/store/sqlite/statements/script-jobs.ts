import type { NewScriptJob, ScriptClaim, ScriptJobRow, ScriptJobStore } from '../../contract/jobs.ts';
import type { Sync } from '../../shared/areas.ts';
import type { SqliteStatements } from '../session.ts';
import { countTry } from './claims.ts';

const enqueueText = `insert into jobs (name, tier, host, state, ready, scheduled_for, run_at, created_at)
  values (?, ?, ?, 'queued', null, ?, ?, ?)
  on conflict (name, coalesce(host, '')) where tier is not null do update set tier = excluded.tier, state = 'queued',
    scheduled_for = coalesce(excluded.scheduled_for, jobs.scheduled_for), run_at = excluded.run_at, started_at = null,
    attempts = 0, claim_token = null, finished_at = null, reason = null`;

const isNew = `jobs.finished_at is not null and (? or jobs.scheduled_for is null
  or jobs.scheduled_for < excluded.scheduled_for or jobs.scheduled_for > excluded.run_at + ${24 * 3_600_000})`;

/** Scripts are few: their rows are found by the index that holds nothing else. */
const scripts = 'jobs indexed by jobs_of_scripts where tier is not null';

export function sqliteScriptJobs(db: SqliteStatements): Sync<ScriptJobStore> {
  return {
    enqueue: (jobs) => jobs.map((job) => enqueue(db, `${enqueueText} returning id`, job) as number),
    enqueueOnce: (jobs) =>
      jobs.map((job) => enqueue(db, `${enqueueText} where ${isNew} returning id`, job, Number(job.isAgain ?? false))),
    open: (tier) =>
      db.all<ScriptJobRow>(
        `select * from ${scripts} and finished_at is null and (? is null or tier = ?)
         order by state = 'retrying', run_at, id`,
        [tier ?? null, tier ?? null],
      ),
    ofTier: (tier) => db.all<ScriptJobRow>(`select * from ${scripts} and tier = ?`, [tier]),
    claim: (claims) => claims.filter((claim) => claimScript(db, claim)).map(({ id }) => id),
  };
}

function enqueue(db: SqliteStatements, text: string, job: NewScriptJob, ...more: readonly number[]): number | null {
  const { name, tier, host, scheduledFor, at } = job;
  const row = db.first<{ id: number }>(text, [name, tier, host ?? null, scheduledFor, at, at, ...more]);
  return row?.id ?? null;
}

function claimScript(db: SqliteStatements, { id, token, state, at, seen }: ScriptClaim): boolean {
  const begin = state === 'running' ? `, started_at = ?, ${countTry}, reason = null` : '';
  return (
    db.run(
      `update jobs set state = '${state}', claim_token = ?${begin}
       where id = ? and state in ('queued', 'retrying') and claim_token is null
         and attempts = coalesce(?, attempts) and (? or scheduled_for is ?)`,
      [
        token,
        ...(state === 'running' ? [at] : []),
        id,
        seen?.attempts ?? null,
        Number(!seen),
        seen?.scheduled_for ?? null,
      ],
    ) > 0
  );
}
