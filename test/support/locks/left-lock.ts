import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LockHolder } from '../../../src/system/lock/holder.ts';

/** A lock as its holder leaves it that cannot give it back, last refreshed so long ago; its path. */
export function leaveLock(folder: string, name: string, holder: LockHolder | string, ageMs = 0): string {
  const lock = join(folder, `${name}.lock`);
  const file = join(lock, 'left.json');
  const heartbeat = join(lock, 'left.lock');
  mkdirSync(heartbeat, { recursive: true });
  writeFileSync(file, typeof holder === 'string' ? holder : JSON.stringify(holder));
  const time = new Date(Date.now() - ageMs);
  for (const path of [file, heartbeat]) utimesSync(path, time, time);
  return lock;
}
