import { recordActivity } from '../store/activity.ts';
import type { Pass } from './pass.ts';

/** Ends the worker's row; what kept it from starting everything is its reason. */
export async function finishWorker({ store, workerId, stop, runner }: Pass): Promise<void> {
  const at = runner.now();
  await store.db.transaction().execute(async (transaction) => {
    await transaction
      .updateTable('workers')
      .set({ state: 'finished', finished_at: at, reason: stop.reason })
      .where('id', '=', workerId)
      // Another host may have found it dead meanwhile, and taken the tier over: that stays said.
      .where('state', '=', 'running')
      .execute();
    await recordActivity(transaction, {
      at,
      event: 'worker-finished',
      workerId,
      detail: stop.reason,
    });
  });
}
