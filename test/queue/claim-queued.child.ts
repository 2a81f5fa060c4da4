import { stateFolderOf } from '../../src/place/state-folder.ts';
import { claimJobs } from '../../src/queue/claim/claim.ts';
import { openStore } from '../../src/store/sqlite/open.ts';

import { meet } from '../support/meet.ts';

/** Takes jobs of the queue together with others until there are none, and prints its claims. */
const [root = '', count = '2'] = process.argv.slice(2);
const { db, close } = await openStore(stateFolderOf(root));
const selection = { groupLimit: null, isWanted: () => true, isFused: () => false };
const claims: { id: number; token: string }[] = [];
meet(root, 'claim', Number(count));
for (;;) {
  const claiming = {
    workerId: null,
    at: Date.now(),
    defaultLeaseMs: 60_000,
    handlerOf: () => null,
  };
  const claimed = await claimJobs(db, async () => selection, claiming, 1 + (claims.length % 3));
  if (claimed.length === 0) break;
  for (const { claim } of claimed) claims.push({ id: claim.id, token: claim.token });
  // Lets the others in: a connection that asks again at once can keep the lock for itself.
  await new Promise((resolve) => setTimeout(resolve, 1));
}
await close();
console.log(JSON.stringify(claims));
