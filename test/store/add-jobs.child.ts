import { stateFolderOf } from '../../src/place/state-folder.ts';
import { recordActivity } from '../../src/store/events.ts';
import { openStore } from '../../src/store/sqlite/open.ts';

/** Adds so many jobs to the log, each in a transaction of its own with its activity. */
const [root = '', tier = '', count = '0'] = process.argv.slice(2);
const store = await openStore(stateFolderOf(root));
for (let index = 0; index < Number(count); index += 1) {
  await store.db.transaction().execute(async (transaction) => {
    const { id } = await transaction
      .insertInto('jobs')
      .values({ name: `${tier}/${index}`, tier, state: 'queued', run_at: 0, created_at: 0 })
      .returning('id')
      .executeTakeFirstOrThrow();
    await recordActivity(transaction, { at: 0, event: 'job-queued', jobId: id });
  });
}
await store.close();
