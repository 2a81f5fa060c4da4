import type { RunEnd } from '../execution/run-end.ts';
import type { WorkerRequest } from '../lock/tier-slot.ts';
import { readUsualDuration } from '../queue/usual-duration.ts';
import { isStoreFailure } from '../store/store-failure.ts';
import { createAdmission } from './admission.ts';
import { createFailoverJournal } from './failover-journal.ts';
import type { PassJob } from './journal.ts';
import { leaveRest } from './leave-rest.ts';
import { createLogJournal } from './log-journal.ts';
import type { OpenSpool } from './open-spool.ts';
import type { LoggedCall } from './pass.ts';
import { pruneLog } from './prune-log.ts';
import { ifLogAllows, tellStoreFailure } from './store-trouble.ts';
import { workOff } from './work-off.ts';

/** What a worker that has its tier is to do. */
export interface Work {
  readonly worker: WorkerRequest;
  readonly workerId: number;
  readonly jobs: readonly PassJob[];
}

/**
 * Runs the jobs of a pass, then keeps the log in bounds. Should the log be lost on the way, the rest
 * is recorded in the spool.
 */
export async function workPass(call: LoggedCall, work: Work): Promise<readonly RunEnd[]> {
  const { runner, stop, store } = call;
  const { worker, workerId, jobs } = work;
  let spool: OpenSpool | null = null;
  const journal = createFailoverJournal({
    log: createLogJournal(store, workerId, runner),
    isLost: isStoreFailure,
    replace: async (error) => {
      const reason = tellStoreFailure(call, error);
      call.spooledTiers.add(worker.tier);
      spool = (await import('./open-spool.ts')).openSpool(call, worker, reason);
      return spool.journal;
    },
  });
  const admit = createAdmission(call, ({ name }) =>
    unlessLost(() => readUsualDuration(store.db, name)),
  );
  const pass = { ...call, tier: worker.tier, journal, admit };
  const { ends, rest } = await workOff(pass, jobs).finally(() => spool?.close());
  if (rest.length > 0 && stop.reason !== null) call.events.emit('left', stop.reason);
  if (spool !== null) return ends;
  await ifLogAllows(call, async () => {
    await leaveRest(store.db, rest, { workerId, at: runner.now(), stop, kind: worker.kind });
    await pruneLog(runner, store, workerId);
  });
  return ends;
}

/** What the log cannot be asked any more is unknown. */
async function unlessLost<T>(ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    if (!isStoreFailure(error)) throw error;
    return null;
  }
}
