import { QueueError } from '../../queue/errors.ts';
import type { Runner } from '../../settings/settings.ts';
import type { NumberedRun } from '../../store/statements/runs.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { NoSuchName } from '../../system/base/errors.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import { reconcile } from './reconcile.ts';

/** Who wants the end of a run, and when. */
export interface StopWish {
  readonly by: string;
  /** UTC epoch milliseconds. */
  readonly at: number;
}

/**
 * Stops a run, or asks its worker to. The worker sees the request in the log within a second, on another machine at its
 * next sign of life: it ends the run by SIGTERM, then SIGKILL. If the worker is dead, the run is ended here, as far as
 * its process is on this machine.
 *
 * @param load loads what is needed to end the run here
 * @throws {NoSuchName} if there is no such run
 * @throws {QueueError} if it has ended, or if it is not the runner's
 */
export async function stopRun(
  store: Store,
  id: number,
  { by, at }: StopWish,
  load: () => Promise<Pick<Runner, 'root' | 'state' | 'settings'>>,
): Promise<void> {
  const request = (session: StoreSession) => requestStop(session, id, { by, at });
  const workerId = await store.retryWhenFull(() => store.transaction(request));
  if (await hasLostWorker(store, workerId)) await reconcile(await load(), store, at);
}

/** Records who wants the end of the run. Who asks once more changes nothing. */
async function requestStop(session: StoreSession, id: number, { by, at }: StopWish): Promise<number> {
  const seen = await session.runs.byNumber(id);
  if (seen !== null) await session.jobs.lock([seen.jobId]);
  // It may have ended before its job was locked.
  const run = await session.runs.byNumber(id);
  if (run === null) throw new NoSuchName(`There is no run ${id} in the log.`);
  const { jobId, workerId, outcome } = run;
  if (outcome !== 'running') throw new QueueError('wrong-state', describeEnded(run));
  if (workerId === null) throw new QueueError('wrong-state', describeForeign(run));
  if ((await session.events.whoStops({ runId: id, jobId })) === null) {
    await session.events.record([{ at, event: 'run-stop-requested', workerId, jobId, runId: id, actor: by }]);
  }
  return workerId;
}

function describeEnded({ id, script, outcome }: NumberedRun): string {
  return `Run ${id} of ${script} has ended already (${outcome}): nothing was stopped.`;
}

function describeForeign({ id, jobId, script }: NumberedRun): string {
  return (
    `Run ${id} of ${script} goes on in a program that has claimed its job, and not under the runner: ` +
    `\`npx folder-runner job ${jobId} fail\` ends the claim.`
  );
}

async function hasLostWorker({ workers }: Store, id: number): Promise<boolean> {
  const [worker] = await workers.byId([id]);
  if (worker === undefined) return false;
  const { state, host, boot_id: bootId, pid, pid_start_ticks: startTicks } = worker;
  return state !== 'running' || checkLiveness({ host, bootId, pid, startTicks }) === 'dead';
}
