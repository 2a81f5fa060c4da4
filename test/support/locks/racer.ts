import type { WorkerRow } from '../../../src/store/schema.ts';
import { takeLockFile } from '../../../src/system/lock/lock-file.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { checkLiveness, identifyProcess } from '../../../src/system/process/identity.ts';
import { holderOf, takeTier, takeTierSlot, type WorkerRequest } from '../../../src/worker/recovery/tier-lock.ts';
import { engine } from '../engines/engines.ts';

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
    const check = (worker: WorkerRow) => checkLiveness(holderOf(worker));
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
