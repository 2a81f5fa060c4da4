import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';

/** Adds so many scripts' jobs to the log, each in a transaction of its own with an event. */
const [root = '', tier = '', count = '0'] = process.argv.slice(2);
const store = await openSqliteStore(stateFolderOf(root));
for (let index = 0; index < Number(count); index += 1) {
  await store.transaction(async ({ scriptJobs, events }) => {
    const job = { name: `${tier}/${index}`, tier, scheduledFor: null, at: 0 };
    const [jobId] = await scriptJobs.enqueue([job]);
    await events.record([{ at: 0, event: 'job-deferred', jobId: jobId ?? null }]);
  });
}
await store.close();
