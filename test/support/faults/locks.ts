import { existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkerRow } from '../../../src/store/schema.ts';
import { processOf } from '../../../src/store/statements/workers.ts';
import type { LockHolder } from '../../../src/system/lock/holder.ts';
import { takeLockFile } from '../../../src/system/lock/lock-file.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { checkLiveness, identifyProcess, readStatFields } from '../../../src/system/process/identity.ts';
import { takeTier, takeTierSlot, type WorkerRequest } from '../../../src/worker/recovery/tier-lock.ts';
import { nodeCache, type Started, startProcess } from '../command.ts';
import { engine } from '../engines/engines.ts';
import { until } from '../until.ts';

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

/** A process that takes the lock `hourly` and tells what becomes of it; `test/support/faults/hold.child.ts`. */
export interface Holder extends Started {
  readDiary(): string[];
  /** Its answer to whether it got the lock. */
  answer(): Promise<'held' | 'refused'>;
  /** Whether it was stopped, by SIGSTOP. */
  isStopped(): boolean;
}

export interface HolderOptions {
  readonly refreshMs?: number;
  /** The command that gives it another place: `unshare --mount …`. */
  readonly within?: readonly string[];
  /** The signal that it sends itself before so manieth step in the locks' folder. */
  readonly atStep?: { readonly step: number; readonly signal: NodeJS.Signals };
}

const child = new URL('./hold.child.ts', import.meta.url).pathname;
const preload = new URL('./at-step.cjs', import.meta.url).pathname;
let count = 0;

export function startHolder(locks: string, { refreshMs, within = [], atStep }: HolderOptions = {}): Holder {
  count += 1;
  const diary = join(locks, '..', `diary-${count}`);
  const env = atStep && {
    NODE_OPTIONS: `--require=${preload}`,
    STEP_IN: locks,
    STEP_AT: String(atStep.step),
    STEP_SIGNAL: atStep.signal,
  };
  const node = [process.execPath, child, locks, diary, String(refreshMs ?? 10_000)];
  const [program = '', ...args] = [...within, ...node];
  const place = { cwd: '/', env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', ...nodeCache, ...env } };
  const started = startProcess(program, args, place);
  const readDiary = (): string[] => (existsSync(diary) ? readFileSync(diary, 'utf8').split('\n').slice(0, -1) : []);
  const findAnswer = () => readDiary().find((line) => line === 'held' || line === 'refused');
  return {
    ...started,
    readDiary,
    isStopped: () => readStatFields(started.pid)?.[0] === 'T',
    answer: async () => {
      await until('it knows whether it has the lock', () => findAnswer() !== undefined);
      return findAnswer() as 'held' | 'refused';
    },
  };
}

/** What a racer takes: the whole lock of a tier, or one of the two things that it is made of. */
export type Guard = 'tier' | 'lock-file' | 'slot';

export interface Won {
  /** Whom it was taken over from; null: nobody told. */
  readonly takenOverFrom: string | null;
  release(): Promise<void>;
}

export interface Racer {
  /** Null: somebody else has it. */
  take(tier: string): Promise<Won | null>;
  close(): Promise<void>;
}

const self = identifyProcess(process.pid);

/** Takes tiers of a root as a runner does. */
export async function createRacer(root: string, guard: Guard, onCompromised: (reason: string) => void): Promise<Racer> {
  const state = stateFolderOf(root);
  if (guard === 'lock-file') return { take: takeFile, close: async () => {} };
  const store = await engine.openStore(state);
  return { take: guard === 'tier' ? takeWhole : takeSlot, close: () => store.close() };

  async function takeFile(tier: string): Promise<Won | null> {
    const holder = { ...self, since: Date.now() };
    const lock = await takeLockFile(state.locks, tier, holder, onCompromised);
    if (!('release' in lock)) return null;
    const dead = lock.takenOverFrom.map((file) => String(file.holder?.pid));
    return { takenOverFrom: dead.join(' and ') || null, release: lock.release };
  }

  async function takeWhole(tier: string): Promise<Won | null> {
    const lock = await takeTier(store, state, requestFor(tier), onCompromised, async () => nothing);
    if (!lock.held) return null;
    const release = () => lock.release().then(() => finish(lock.workerId));
    return { takenOverFrom: lock.takenOverFrom, release };
  }

  async function takeSlot(tier: string): Promise<Won | null> {
    const check = (worker: WorkerRow) => checkLiveness(processOf(worker));
    const slot = await takeTierSlot(store, requestFor(tier), [], check, nothing);
    if (!slot.held) return null;
    return { takenOverFrom: slot.takenOverFrom, release: () => finish(slot.workerId) };
  }

  async function finish(workerId: number): Promise<void> {
    await store.workers.end(workerId, { state: 'finished', at: Date.now(), reason: null });
  }
}

const nothing = async (): Promise<void> => {};

function requestFor(tier: string): WorkerRequest {
  return {
    kind: 'tier',
    tier,
    ...self,
    scheduledFor: null,
    startedAt: Date.now(),
    trigger: 'cron',
    runnerVersion: '0',
    nodeVersion: '0',
  };
}
