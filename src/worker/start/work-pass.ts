import type { RunEnd } from '../../execution/result/result.ts';
import type { WorkerRequest } from '../../lock/registry.ts';
import { readUsualDuration } from '../../queue/read/history.ts';
import { isStoreFailure } from '../../store/failures.ts';
import { leaveRest } from '../collect/collect-jobs.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows, tellStoreFailure } from '../invocation/with-store.ts';
import { createAdmission } from '../loop/limits.ts';
import { workOff } from '../loop/loop.ts';
import { pruneLog } from '../prune/prune-log.ts';
import { createFailoverJournal, createLogJournal, type PassJob } from '../record/run-recorder.ts';
import type { OpenSpool } from '../record/spool-recorder.ts';

/** What a worker that has its tier is to do. */
interface Work {
  readonly worker: WorkerRequest;
  readonly workerId: number;
  readonly jobs: readonly PassJob[];
}

/**
 * Runs the jobs of a pass, then keeps the log in bounds. Should the log be lost on the way, the rest
 * is recorded in the spool.
 */
export async function workPass(call: StoreInvocation, work: Work): Promise<readonly RunEnd[]> {
  const { runner, stop, store } = call;
  const { worker, workerId, jobs } = work;
  let spool: OpenSpool | null = null;
  const journal = createFailoverJournal({
    log: createLogJournal(store, workerId, runner),
    isLost: isStoreFailure,
    replace: async (error) => {
      const reason = tellStoreFailure(call, error);
      call.spooledTiers.add(worker.tier);
      spool = (await import('../record/spool-recorder.ts')).openSpool(call, worker, reason);
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
