import { sql } from 'kysely';
import type { Database } from '../store/open-store.ts';

/** Whether anything might have to be rescued: two looks at indexes that are empty, mostly. */
export async function mayHaveLost(db: Database): Promise<boolean> {
  const { lost } = await db
    .selectNoFrom(({ or, exists, selectFrom, eb }) => {
      const isRunning = sql.lit('running' as const);
      const runs = selectFrom('runs')
        .select('id')
        .where('outcome', '=', isRunning)
        .where('worker_id', 'is not', null);
      const workers = selectFrom('workers').select('id').where('state', '=', isRunning);
      return eb
        .case()
        .when(or([exists(runs), exists(workers)]))
        .then(1)
        .else(0)
        .end()
        .as('lost');
    })
    .executeTakeFirstOrThrow();
  return lost === 1;
}

/** Whether a run goes on, or has not ended yet, whose worker has. */
export async function hasLeftRun(db: Database): Promise<boolean> {
  const run = await db
    .selectFrom('runs')
    .innerJoin('workers', 'workers.id', 'runs.worker_id')
    .select('runs.id')
    .where('runs.outcome', '=', sql.lit('running' as const))
    .where('workers.state', '!=', 'running')
    .executeTakeFirst();
  return run !== undefined;
}
