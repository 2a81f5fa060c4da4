import type { Kysely } from 'kysely';
import { checkLiveness, type Liveness } from '../process/process-identity.ts';
import type { ActivityLog, CalledBy, Outcome, WorkerState } from '../store/schema.ts';
import type { TimeWindow } from './select-runs.ts';

/** One pass over a tier. */
export interface Pass {
  readonly id: number;
  readonly state: WorkerState;
  readonly calledBy: CalledBy;
  readonly scheduledForMs: number | null;
  readonly startedAtMs: number;
  readonly finishedAtMs: number | null;
  /** Why it was skipped, or how it is known to have crashed. */
  readonly reason: string | null;
}

/** The tier's passes in the window, oldest first, skipped ones among them. */
export async function selectPasses(
  db: Kysely<ActivityLog>,
  tier: string,
  window: TimeWindow,
): Promise<Pass[]> {
  return await passesOf(db, tier)
    .where('started_at', '>=', window.sinceMs)
    .where('started_at', '<', window.untilMs)
    .orderBy('started_at')
    .orderBy('id')
    .execute();
}

/** The last call of the tier before that instant, skipped or not. */
export async function selectLastCallBefore(
  db: Kysely<ActivityLog>,
  tier: string,
  beforeMs: number,
): Promise<Pass | null> {
  return await newestBefore(db, tier, beforeMs).executeTakeFirst().then(orNull);
}

/** The last pass before that instant that had the lock. */
export async function selectLastPass(
  db: Kysely<ActivityLog>,
  tier: string,
  beforeMs: number,
): Promise<Pass | null> {
  const query = newestBefore(db, tier, beforeMs).where('state', '!=', 'skipped');
  return await query.executeTakeFirst().then(orNull);
}

/** How the runs of one pass ended. */
export async function selectPassOutcomes(
  db: Kysely<ActivityLog>,
  passId: number,
): Promise<Outcome[]> {
  const query = db.selectFrom('runs').select('outcome').where('worker_id', '=', passId);
  return (await query.execute()).map((row) => row.outcome);
}

/** Whether the process of that pass still lives. */
export async function selectPassLiveness(
  db: Kysely<ActivityLog>,
  passId: number,
): Promise<Liveness> {
  const row = await db
    .selectFrom('workers')
    .select(['host', 'boot_id as bootId', 'pid', 'pid_start_ticks as startTicks'])
    .where('id', '=', passId)
    .executeTakeFirst();
  return row === undefined ? 'dead' : checkLiveness(row);
}

function passesOf(db: Kysely<ActivityLog>, tier: string) {
  return db
    .selectFrom('workers')
    .select([
      'id',
      'state',
      'called_by as calledBy',
      'scheduled_for as scheduledForMs',
      'started_at as startedAtMs',
      'finished_at as finishedAtMs',
      'reason',
    ])
    .where('kind', '=', 'tier')
    .where('tier', '=', tier);
}

function newestBefore(db: Kysely<ActivityLog>, tier: string, beforeMs: number) {
  return passesOf(db, tier)
    .where('started_at', '<', beforeMs)
    .orderBy('started_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1);
}

function orNull(pass: Pass | undefined): Pass | null {
  return pass ?? null;
}
