import type { NewScriptJob, ScriptClaim, ScriptJobRow, ScriptJobStore } from '../contract.ts';
import type { Sync } from './areas.ts';
import type { Statements } from './session.ts';

const enqueueText = `insert into jobs (name, tier, state, ready, scheduled_for, run_at, created_at)
  values (?, ?, 'queued', null, ?, ?, ?)
  on conflict (name) where tier is not null do update set tier = excluded.tier, state = 'queued',
    scheduled_for = excluded.scheduled_for, run_at = excluded.run_at, started_at = null,
    attempts = 0, claim_token = null, finished_at = null, reason = null
  returning id`;

/** Scripts are few: their rows are found by the index that holds nothing else. */
const scripts = 'jobs indexed by jobs_of_scripts where tier is not null';

export function scriptJobStatements(db: Statements): Sync<ScriptJobStore> {
  return {
    enqueue: (jobs) => jobs.map((job) => enqueue(db, job)),
    open: (tier) =>
      db.all<ScriptJobRow>(
        `select * from ${scripts} and finished_at is null and (? is null or tier = ?)
         order by state = 'retrying', run_at, id`,
        [tier ?? null, tier ?? null],
      ),
    ofTier: (tier) => db.all<ScriptJobRow>(`select * from ${scripts} and tier = ?`, [tier]),
    claim: (claims) => claims.filter((claim) => take(db, claim)).map(({ id }) => id),
  };
}

function enqueue(db: Statements, { name, tier, scheduledFor, at }: NewScriptJob): number {
  const row = db.first<{ id: number }>(enqueueText, [name, tier, scheduledFor, at, at]);
  return (row as { id: number }).id;
}

function take(db: Statements, { id, token, state, at }: ScriptClaim): boolean {
  const begun =
    state === 'running' ? ', started_at = ?, attempts = attempts + 1, reason = null' : '';
  return (
    db.run(
      `update jobs set state = '${state}', claim_token = ?${begun}
       where id = ? and state in ('queued', 'retrying') and claim_token is null`,
      [token, ...(state === 'running' ? [at] : []), id],
    ) > 0
  );
}
