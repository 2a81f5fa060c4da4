import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import type { Call } from './pass.ts';

/** Ends the worker's row; what kept it from starting everything is its reason. */
export async function finishWorker(
  { stop, runner }: Call,
  db: Database,
  workerId: number,
): Promise<void> {
  const at = runner.now();
  await db.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .updateTable('workers')
      .set({ state: 'finished', finished_at: at, reason: stop.reason })
      .where('id', '=', workerId)
      // Another host may have found it dead meanwhile, and taken the tier over: that stays said.
      .where('state', '=', 'running')
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return;
    await recordActivity(transaction, {
      at,
      event: 'worker-finished',
      workerId,
      detail: stop.reason,
    });
  });
}
