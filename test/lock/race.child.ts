import { stateFolderOf } from '../../src/config/state-folder.ts';
import { takeTier } from '../../src/lock/take-tier.ts';
import { identifyProcess } from '../../src/process/process-identity.ts';
import { openStore } from '../../src/store/open-store.ts';
import { meet } from '../support/meet.ts';

/** Tries, together with others, to take the tiers `round-0`, `round-1` …; prints those it got. */
const [root = '', rounds = '0', racers = '0'] = process.argv.slice(2);
const state = stateFolderOf(root);
const store = await openStore(state);
const won: number[] = [];
const locks: { release(): Promise<void> }[] = [];
for (let round = 0; round < Number(rounds); round += 1) {
  meet(root, `round-${round}`, Number(racers));
  const request = {
    kind: 'tier',
    tier: `round-${round}`,
    self: identifyProcess(process.pid),
    scheduledFor: null,
    startedAt: Date.now(),
    runnerVersion: '0',
  } as const;
  const lock = await takeTier(store, state, request, () => {});
  if (!lock.held) continue;
  won.push(round);
  locks.push(lock);
}
// Held until everybody has tried: a tier that is given back may be taken again.
meet(root, 'end', Number(racers));
for (const lock of locks) await lock.release();
await store.close();
console.log(JSON.stringify(won));
