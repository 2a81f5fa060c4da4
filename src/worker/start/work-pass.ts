import type { RunEnd } from '../../execution/result/result.ts';
import type { WorkerRequest } from '../../lock/registry.ts';
import type { Store } from '../../store/contract.ts';
import { isStoreFailure } from '../../store/failures.ts';
import { leaveRest } from '../collect/collect-jobs.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows, reportStoreFailure } from '../invocation/with-store.ts';
import { createAdmission } from '../loop/limits.ts';
import { workOff } from '../loop/loop.ts';
import { pruneLog } from '../prune/prune-log.ts';
import {
  createFailoverRecorder,
  createStoreRecorder,
  type PassJob,
} from '../record/run-recorder.ts';
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
  const recorder = createFailoverRecorder({
    store: createStoreRecorder(store, workerId, runner),
    isLost: isStoreFailure,
    replace: async (error) => {
      const reason = reportStoreFailure(call, error);
      call.spooledTiers.add(worker.tier);
      spool = (await import('../record/spool-recorder.ts')).openSpool(call, worker, reason);
      return spool.recorder;
    },
  });
  const admit = createAdmission(call, ({ name }) =>
    unlessLost(() => readUsualDuration(store, name)),
  );
  const pass = { ...call, tier: worker.tier, recorder, admit };
  const { ends, rest } = await workOff(pass, jobs).finally(() => spool?.close());
  await ifLogAllows(call, () => store.sync());
  if (rest.length > 0 && stop.reason !== null) call.events.emit('deferred', stop.reason);
  if (spool !== null) return ends;
  await ifLogAllows(call, async () => {
    await leaveRest(store, rest, { workerId, at: runner.now(), stop, kind: worker.kind });
    await pruneLog(runner, store, workerId);
  });
  return ends;
}

/** As many runs as tell what is usual now, not what it was last year. */
const RUNS = 20;

/** The median of a script's last successful runs, in milliseconds; null: there were none. */
async function readUsualDuration(store: Store, script: string): Promise<number | null> {
  const durations = await store.runs.durations(script, RUNS);
  return durations.sort((one, other) => one - other)[Math.floor(durations.length / 2)] ?? null;
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
