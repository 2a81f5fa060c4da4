import type { Database } from '../store/open-store.ts';

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
