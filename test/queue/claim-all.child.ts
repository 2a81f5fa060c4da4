import { hostname } from 'node:os';
import { stateFolderOf } from '../../src/place/state-folder.ts';
import { claimJob } from '../../src/queue/claim/script-claim.ts';
import { openStore } from '../../src/store/sqlite/open.ts';

import { meet } from '../support/meet.ts';
import { makeScript } from '../support/plain-script.ts';

/** Tries to claim every job of a root together with one other, and prints which ones it got. */
const [root = ''] = process.argv.slice(2);
const { db, close } = await openStore(stateFolderOf(root));
const jobs = await db.selectFrom('jobs').select(['id', 'name']).orderBy('id').execute();
const worker = await db
  .insertInto('workers')
  .values({
    kind: 'tier',
    tier: `of ${process.pid}`,
    state: 'running',
    host: hostname(),
    pid: process.pid,
    started_at: 0,
    runner_version: '0',
    node_version: '0',
  })
  .returning('id')
  .executeTakeFirstOrThrow();
meet(root, 'claim', 2);
const claimed: number[] = [];
for (const { id, name } of jobs) {
  const job = { id, script: makeScript(name), scheduledFor: null };
  if ((await claimJob(db, job, { workerId: worker.id, at: Date.now(), timeoutMs: 1 })) !== null)
    claimed.push(id);
  // Lets the other one in: a connection that asks again at once can keep the lock for itself.
  await new Promise((resolve) => setTimeout(resolve, 1));
}
await close();
console.log(JSON.stringify(claimed));
