import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { stateFolderOf } from '../../src/config/state-folder.ts';
import { takeTier } from '../../src/lock/take-tier.ts';
import { identifyProcess } from '../../src/process/process-identity.ts';
import { openStore } from '../../src/store/open-store.ts';
import { meet } from '../support/meet.ts';

/** Takes and gives back one tier until it has had it so often; prints what was wrong with it. */
const [root = '', turns = '0'] = process.argv.slice(2);
const state = stateFolderOf(root);
const store = await openStore(state);
const wrong: string[] = [];
let passes = 0;
meet(root, 'start', 3);
while (passes < Number(turns)) {
  const request = {
    kind: 'tier',
    tier: 'hourly',
    self: identifyProcess(process.pid),
    scheduledFor: null,
    startedAt: Date.now(),
    runnerVersion: '0',
  } as const;
  const lock = await takeTier(store, state, request, (reason) => wrong.push(reason));
  await new Promise((resolve) => setTimeout(resolve, 1));
  if (!lock.held) continue;
  passes += 1;
  try {
    const holder = JSON.parse(readFileSync(join(state.locks, 'hourly.json'), 'utf8'));
    if (holder.pid !== process.pid) wrong.push(`held by ${holder.pid}`);
    statSync(join(state.locks, 'hourly.lock'));
  } catch (error) {
    wrong.push(String(error));
  }
  await lock.release();
  await store.db
    .updateTable('workers')
    .set({ state: 'finished', finished_at: Date.now() })
    .where('id', '=', lock.workerId)
    .execute();
}
await store.close();
console.log(JSON.stringify({ wrong }));
