import { defaultTimeoutMs } from '../discovery/default-timeout.ts';
import { endLostRun } from '../execution/end-lost-run.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { GRACE_MS } from '../execution/terminate.ts';
import { markDeadWorkers } from '../lock/dead-workers.ts';
import {
  type OpenRun,
  type Rescue,
  type Rescued,
  rescueJobs,
  selectOpenRuns,
} from '../queue/rescue-jobs.ts';
import type { Database } from '../store/open-store.ts';
import type { FinishedRun } from '../store/schema.ts';
import { toFinishedRun } from './finished-run.ts';
import type { Runner } from './runner.ts';

/** What reconciling needs to know of the runner. */
export type Reconciler = Pick<Runner, 'root' | 'state' | 'settings'>;

/**
 * Makes the log tell the truth about what died: workers whose process is gone have crashed, and each
 * run that lost its runner ends by what is known of it. A run that outlived its runner is left alone
 * until its time limit; only a worker, never somebody who only looks, ends it then.
 */
export async function reconcile(
  reconciler: Reconciler,
  db: Database,
  rescue: Rescue,
): Promise<Rescued> {
  await markDeadWorkers(db, reconciler.state, rescue.at);
  const lost = await selectLostRuns(db);
  const rescued = await rescueJobs(db, lost, rescue, (run) => endRun(reconciler, run, rescue));
  for (const { id } of rescued.ended) removeRunFiles(runFilesOf(reconciler.state, id));
  return rescued;
}

/** Runs of workers that have ended, whichever way: what they had begun, nobody ends any more. */
async function selectLostRuns(db: Database): Promise<readonly OpenRun[]> {
  const open = await selectOpenRuns(db);
  return open.filter(({ runnerState }) => runnerState !== 'running');
}

async function endRun(
  { root, state, settings }: Reconciler,
  run: OpenRun,
  { workerId, at }: Rescue,
): Promise<FinishedRun | null> {
  const end = await endLostRun({
    runId: run.id,
    root,
    state,
    startedAt: run.startedAt,
    process: { host: run.host, bootId: run.bootId, pid: run.pid, startTicks: run.startTicks },
    runner: `pid ${run.runnerPid} on ${run.host}`,
    timeoutMs: run.timeoutMs ?? defaultTimeoutMs(run.script.split('/', 1)[0] as string),
    graceMs: GRACE_MS,
    maxOutputBytes: settings.maxOutputBytes,
    lastSeenRssBytes: run.maxRssBytes,
    mayTerminate: workerId !== null,
    now: at,
  });
  return end === null ? null : toFinishedRun(end);
}
