import type { Database } from '../store/open-store.ts';

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
