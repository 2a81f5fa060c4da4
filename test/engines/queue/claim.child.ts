import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { engine } from '../../support/engines/engines.ts';
import { meet } from '../../support/until.ts';
import { openWorker, startWorker } from './worker-claims.ts';

/** Takes jobs of a root together with others until there are none, and prints its claims. */
const [root = '', count = '2', what = 'queue'] = process.argv.slice(2);
const store = await engine.openStore(stateFolderOf(root));
const clock = { at: Date.now() };
const worker = await openWorker({ store, clock });
const claims: { id: number; token: string }[] = [];
// Lets the others in: a connection that asks again at once can keep the lock for itself.
const rest = () => new Promise((resolve) => setTimeout(resolve, 1));
meet(root, 'claim', Number(count));
if (what === 'scripts') {
  const workerId = await startWorker(store, clock.at);
  for (const { id } of await store.scriptJobs.open()) {
    const claim = { id, token: `${workerId}.${claims.length + 1}` };
    const asked = [{ ...claim, state: 'claimed' as const, at: clock.at }];
    const taken = await store.transaction((session) => session.scriptJobs.claim(asked));
    if (taken.length > 0) claims.push(claim);
    await rest();
  }
} else {
  for (;;) {
    const claimed = await worker.claim(1 + (claims.length % 3));
    if (claimed.length === 0) break;
    for (const { id, claim_token } of claimed) claims.push({ id, token: claim_token });
    await rest();
  }
}
await store.close();
console.log(JSON.stringify(claims));
