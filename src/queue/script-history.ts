import type { Database } from '../store/open-store.ts';

/** What a script is told of its own past. */
export interface ScriptHistory {
  /** When its last successful run started. */
  readonly lastSuccess: number | null;
  /** Whether its last run died with its runner. */
  readonly previouslyCrashed: boolean;
}

export async function readScriptHistory(
  db: Database,
  script: string,
  beforeRunId: number,
): Promise<ScriptHistory> {
  const earlier = db
    .selectFrom('runs')
    .where('script', '=', script)
    .where('id', '!=', beforeRunId)
    .orderBy('started_at', 'desc')
    .limit(1);
  const lastSuccess = await earlier
    .select('started_at')
    .where('outcome', '=', 'succeeded')
    .executeTakeFirst();
  const last = await earlier.select('outcome').executeTakeFirst();
  return {
    lastSuccess: lastSuccess?.started_at ?? null,
    previouslyCrashed: last?.outcome === 'crashed',
  };
}
