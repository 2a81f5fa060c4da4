import { sql } from 'kysely';
import { listNames } from '../base/values.ts';
import { fallbackStateFolderOf } from '../place/fallback.ts';
import { hasExpiredLease } from '../queue/claim/waiting.ts';
import type { Runner } from '../settings/settings.ts';
import { hasSpool } from '../spool/files.ts';
import { hasSecondName } from '../store/sqlite/file.ts';
import type { Database } from '../store/store.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** Whether the log may not tell the truth. Asked at every start, and cheap: mostly it does. */
export async function mayNeedReconciling(place: Place, db: Database): Promise<boolean> {
  const { temporary, locks } = place.state;
  // A run's temporary folder is the last that goes, and a worker's lock: without them nothing is left.
  return (
    isSpooled(place) ||
    listNames(temporary).length > 0 ||
    listNames(locks).length > 0 ||
    hasSecondName(place.state) ||
    (await mayHaveLost(db)) ||
    (await hasExpiredLease(db, Date.now()))
  );
}

/** Whether runs may lie beside the log. */
export function isSpooled({ root, state }: Place): boolean {
  return hasSpool(state) || hasSpool(fallbackStateFolderOf(root));
}

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
