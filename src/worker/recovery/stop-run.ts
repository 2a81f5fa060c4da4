import { QueueError } from '../../queue/errors.ts';
import type { NumberedRun } from '../../store/statements/runs.ts';
import { isGone } from '../../store/statements/workers.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { NoSuchName } from '../../system/base/errors.ts';

/** Which run is to end. */
interface MeantRun {
  readonly id: number;
  /** When it began, epoch milliseconds: the number of a run that was deleted may be another one's by now. */
  readonly startedAtMs: number;
}

/** A person's wish to end a run. */
interface StopWish {
  readonly by: string;
  /** UTC epoch milliseconds. */
  readonly at: number;
}

/**
 * Asks the worker of a run to stop it. The worker sees the request in the log within a second, on another machine at its
 * next sign of life: it ends the run by SIGTERM, then SIGKILL.
 *
 * @returns whether its worker is alive, as far as is known; if not, `reconcile` ends the run where its process is
 * @throws {NoSuchName} if there is no such run
 * @throws {QueueError} if it has ended, or if it is not the runner's
 */
export async function stopRun(store: Store, meant: MeantRun, wish: StopWish): Promise<boolean> {
  const request = (session: StoreSession) => requestStop(session, meant, wish);
  const workerId = await store.retryWhenFull(() => store.transaction(request));
  return !(await hasLostWorker(store, workerId));
}

/** Records the wish to end the run; a second wish changes nothing. */
async function requestStop(session: StoreSession, { id, startedAtMs }: MeantRun, { by, at }: StopWish) {
  const seen = await session.runs.byNumber(id);
  if (seen !== null) await session.jobs.lock([seen.jobId]);
  // It may have ended before its job was locked.
  const run = await session.runs.byNumber(id);
  if (run === null) throw new NoSuchName(`There is no run ${id} in the log.`);
  if (run.startedAt !== startedAtMs) throw new QueueError('wrong-state', describeOther(run));
  const { jobId, workerId, outcome } = run;
  if (outcome !== 'running') throw new QueueError('wrong-state', describeEnded(run));
  if (workerId === null) throw new QueueError('wrong-state', describeForeign(run));
  if ((await session.events.whoStops({ runId: id, jobId })) === null) {
    await session.events.record([{ at, event: 'run-stop-requested', workerId, jobId, runId: id, actor: by }]);
  }
  return workerId;
}

function describeOther({ id, script }: NumberedRun): string {
  return (
    `The run that is meant has ended and was deleted; its number, ${id}, is that of another run, of ${script}: ` +
    'nothing was stopped.'
  );
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
  return worker !== undefined && isGone(worker);
}
