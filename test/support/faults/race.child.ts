import { meet } from '../until.ts';
import { createRacer, type Guard, type Won } from './locks.ts';

/** Tries, together with others, to take the tiers `round-0`, `round-1` …; prints those it got. */
const [root = '', guard = '', rounds = '0', racers = '0'] = process.argv.slice(2);
const racer = await createRacer(root, guard as Guard, (reason) => {
  throw new Error(reason);
});
const won: { round: number; takenOverFrom: string | null }[] = [];
const locks: Won[] = [];
for (let round = 0; round < Number(rounds); round += 1) {
  meet(root, `round-${round}`, Number(racers));
  const lock = await racer.take(`round-${round}`);
  if (lock === null) continue;
  won.push({ round, takenOverFrom: lock.takenOverFrom });
  locks.push(lock);
}
// Held until everybody has tried: a tier that is given back may be taken again.
meet(root, 'end', Number(racers));
for (const lock of locks) await lock.release();
await racer.close();
console.log(JSON.stringify(won));
