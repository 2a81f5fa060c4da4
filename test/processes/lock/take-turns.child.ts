import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clearDeadLock } from '../../../src/system/lock/lock-file.ts';
import { createRacer, type Guard } from '../../support/faults/locks.ts';
import { meet } from '../../support/until.ts';

/** Takes and gives back one tier until it has had it so often; prints what was wrong with it. */
const [root = '', guard = '', turns = '0', racers = '0'] = process.argv.slice(2);
const wrong: string[] = [];
const racer = await createRacer(root, guard as Guard, (reason) => wrong.push(reason));
const witness = join(root, 'inside');
let passes = 0;
meet(root, 'start', Number(racers));
while (passes < Number(turns)) {
  // As a pass of any other tier does at its start: it takes nothing from the living.
  clearDeadLock(join(root, '.runner', 'locks'), 'hourly');
  const lock = await racer.take('hourly');
  if (lock !== null) {
    passes += 1;
    try {
      writeFileSync(witness, String(process.pid), { flag: 'wx' });
      await giveWay();
      rmSync(witness);
    } catch (error) {
      wrong.push(String(error));
    }
    await lock.release();
  }
  await giveWay();
}
await racer.close();
console.log(JSON.stringify({ wrong }));

function giveWay(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}
