import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { LockHolder } from '../../src/system/lock/holder.ts';
import { type LockFile, takeLockFile } from '../../src/system/lock/lock-file.ts';
import { identifyProcess } from '../../src/system/process/identity.ts';
import { identifyDeadProcess } from '../support/faults/faults.ts';
import { type Holder, leaveLock, startHolder } from '../support/faults/locks.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { makeStateOf } from '../support/store.ts';
import { until } from '../support/until.ts';

const self: LockHolder = { ...identifyProcess(process.pid), since: Date.now() };
const dead: LockHolder = { ...identifyDeadProcess(), since: 1 };

/** A lock that a dead process has left. */
function leaveStaleLock(): string {
  const { locks } = makeStateOf(makeTemporaryRoot());
  leaveLock(locks, 'hourly', dead);
  return locks;
}

const take = (locks: string): Promise<LockFile | LockHolder> => takeLockFile(locks, 'hourly', self, expect.fail);

const isHeld = (lock: LockFile | LockHolder): lock is LockFile => 'release' in lock;

/** Whose file is in the lock: exactly one, or none. */
function readHolders(locks: string): number[] {
  const files = globSync('hourly.lock/*.json', { cwd: locks });
  return files.map((file) => JSON.parse(readFileSync(join(locks, file), 'utf8')).pid);
}

const pidsOf = (lock: LockFile): (number | undefined)[] => lock.takenOverFrom.map(({ holder }) => holder?.pid);

/** Which pids a holder has told it took the lock over from. */
const toldBy = (holder: Holder): number[] =>
  holder.readDiary().flatMap(
    (line) =>
      line
        .match(/^over from (\d+)$/)
        ?.slice(1)
        .map(Number) ?? [],
  );

type Reached = 'taking' | 'releasing' | 'past its end';

/** Starts a process that takes the stale lock and gives it back; stopped before one of its steps. */
async function startStopped(locks: string, step: number): Promise<[Holder, Reached]> {
  const holder = startHolder(locks, { atStep: { step, signal: 'SIGSTOP' } });
  let ended = false;
  void holder.ended.then(() => (ended = true));
  const knows = (line: string): boolean => holder.readDiary().includes(line);
  await until('it is stopped or has the lock', () => holder.isStopped() || knows('held'));
  if (holder.isStopped()) return [holder, knows('held') ? 'releasing' : 'taking'];
  holder.kill('SIGUSR2');
  await until('it is stopped or has ended', () => holder.isStopped() || ended);
  return [holder, ended ? 'past its end' : 'releasing'];
}

/** Does it with a process that is stopped before its first, second … step, until it has no more. */
async function forEachStep(
  whileStopped: (locks: string, holder: Holder, reached: Reached) => Promise<void>,
): Promise<number> {
  for (let step = 1; ; step += 1) {
    const locks = leaveStaleLock();
    const [holder, reached] = await startStopped(locks, step);
    if (reached === 'past its end') return step;
    await whileStopped(locks, holder, reached);
    expect(readdirSync(locks)).toEqual([]);
  }
}

/** Nothing may have gone wrong with it, whatever it met. */
async function seeEnd(holder: Holder): Promise<void> {
  expect(await holder.ended).toMatchObject({ status: 0, stderr: '' });
}

const FEWEST_STEPS = 15;

test('wherever one is stopped while it takes a stale lock over, one of two gets it', async () => {
  const steps = await forEachStep(async (locks, holder, reached) => {
    const lock = await take(locks);
    holder.kill('SIGCONT');
    if (reached === 'taking') {
      expect(await holder.answer()).toBe(isHeld(lock) ? 'refused' : 'held');
      expect(readHolders(locks)).toEqual([isHeld(lock) ? self.pid : holder.pid]);
      if (!isHeld(lock)) holder.kill('SIGUSR2');
    }
    await seeEnd(holder);
    // Also who was stopped while it gave the lock back removes only what is its own.
    if (!isHeld(lock)) return;
    expect(readHolders(locks)).toEqual([self.pid]);
    await lock.release();
  });
  expect(steps).toBeGreaterThan(FEWEST_STEPS);
});

test('who was stopped while another one had the lock and gave it back gets it, or had it', async () => {
  await forEachStep(async (locks, holder, reached) => {
    const lock = await take(locks);
    if (isHeld(lock)) await lock.release();
    holder.kill('SIGCONT');
    if (reached === 'releasing') return seeEnd(holder);
    expect(await holder.answer()).toBe('held');
    expect(await take(locks)).toMatchObject({ pid: holder.pid });
    // Of the dead one's lock exactly one of them has told.
    expect([...toldBy(holder), ...(isHeld(lock) ? pidsOf(lock) : [])]).toEqual([dead.pid]);
    holder.kill('SIGUSR2');
    await seeEnd(holder);
  });
});

test('wherever one is killed while it takes or releases a lock, the next one gets it at once', async () => {
  const found = { whole: 0 };
  for (let step = 1; ; step += 1) {
    const locks = leaveStaleLock();
    const holder = startHolder(locks, { atStep: { step, signal: 'SIGKILL' } });
    let status: number | null | undefined;
    void holder.ended.then((ended) => (status = ended.status));
    const isHeldByIt = (): boolean => holder.readDiary().includes('held');
    await until('it is killed or has the lock', () => status !== undefined || isHeldByIt());
    holder.kill('SIGUSR2');
    await holder.ended;
    const left = readHolders(locks);
    const lock = (await take(locks)) as LockFile;
    expect(isHeld(lock)).toBe(true);
    // Told are the one it killed, if it was in, and the one before, if nobody could tell of it.
    if (left.includes(holder.pid)) expect(pidsOf(lock)).toContain(holder.pid);
    else if (!isHeldByIt()) expect(pidsOf(lock)).toContain(dead.pid);
    if (left.includes(holder.pid)) found.whole += 1;
    await lock.release();
    expect(readdirSync(locks)).toEqual([]);
    if (status === 0) {
      expect(step).toBeGreaterThan(FEWEST_STEPS);
      break;
    }
  }
  expect(found.whole).toBeGreaterThan(3);
});
