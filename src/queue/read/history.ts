import type { Database } from '../../store/store.ts';
import type { Claim } from '../claim/script-claim.ts';

/** What a script is told of its own past. */
export interface ScriptHistory {
  /** When its last successful run started. */
  readonly lastSuccess: number | null;
  /** Whether its last run died with its runner. */
  readonly previouslyCrashed: boolean;
}

/** One query, of the last run and the last success before this run. */
export async function readScriptHistory(
  db: Database,
  script: string,
  beforeRunId: number,
): Promise<ScriptHistory> {
  const { last_outcome, last_success } = await db
    .selectNoFrom(({ selectFrom }) => {
      const earlier = selectFrom('runs')
        .where('script', '=', script)
        .where('id', '!=', beforeRunId)
        .orderBy('started_at', 'desc')
        .limit(1);
      const lastSuccess = earlier.select('started_at').where('outcome', '=', 'succeeded');
      return [earlier.select('outcome').as('last_outcome'), lastSuccess.as('last_success')];
    })
    .executeTakeFirstOrThrow();
  return { lastSuccess: last_success, previouslyCrashed: last_outcome === 'crashed' };
}

/**
 * Whether an earlier try of a claimed job died with its worker, or its lease ran out. Of a repeating job only the
 * tries of this time count: they begin with the last first one that was not given back.
 */
export async function hasEarlierTryCrashed(
  db: Database,
  { id, runId, attempt }: Claim,
): Promise<boolean> {
  if (attempt === 1) return false;
  const earlier = db.selectFrom('runs').where('job_id', '=', id).where('id', '<', runId);
  const first = earlier
    .select(({ fn }) => fn.max('id').as('first'))
    .where('attempt', '=', 1)
    .where('outcome', '!=', 'released');
  const crashed = await earlier
    .select('id')
    .where('outcome', '=', 'crashed')
    .where('id', '>=', first)
    .executeTakeFirst();
  return crashed !== undefined;
}

/** As many runs as tell what is usual now, not what it was last year. */
const RUNS = 20;

/** The median of a script's last successful runs, in milliseconds; null: there were none. */
export async function readUsualDuration(db: Database, script: string): Promise<number | null> {
  const rows = await db
    .selectFrom('runs')
    .select('duration_ms')
    .where('script', '=', script)
    .where('outcome', '=', 'succeeded')
    .where('duration_ms', 'is not', null)
    .orderBy('started_at', 'desc')
    .limit(RUNS)
    .execute();
  const durations = rows.map((row) => row.duration_ms as number).sort((one, other) => one - other);
  return durations[Math.floor(durations.length / 2)] ?? null;
}
