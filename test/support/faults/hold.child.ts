import { appendFileSync } from 'node:fs';
import { type LockFile, takeLockFile } from '../../../src/system/lock/lock-file.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';

/**
 * Takes the lock of `hourly` once, and holds it until it is told to go on by SIGUSR2. Writes down,
 * line by line: whom it took it over from, `held`, `refused`, `lost: …`, `released`.
 */
const [folder = '', diary = '', refreshMs = '10000'] = process.argv.slice(2);
const write = (line: string): void => appendFileSync(diary, `${line}\n`);
const timing = { refreshMs: Number(refreshMs), staleMs: 2 * Number(refreshMs), unprovenMs: 900_000 };
const goesOn = new Promise<void>((resolve) => void process.on('SIGUSR2', () => resolve()));
const self = { ...identifyProcess(process.pid), since: Date.now() };
const lock = await takeLockFile(folder, 'hourly', self, (why) => write(`lost: ${why}`), timing);
if ('release' in lock) await hold(lock);
else write('refused');

async function hold({ takenOverFrom, release }: LockFile): Promise<void> {
  for (const { holder } of takenOverFrom) write(`over from ${holder?.pid}`);
  write('held');
  const alive = setInterval(() => {}, 1_000);
  await goesOn;
  clearInterval(alive);
  await release();
  write('released');
}
