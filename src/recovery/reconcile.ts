import { toFinishedRun } from '../execution/result/result.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { createMasker } from '../execution/secrets.ts';
import { GRACE_MS } from '../execution/watch/terminate.ts';
import { fallbackStateFolderOf } from '../place/fallback.ts';
import type { StateFolder } from '../place/state-folder.ts';
import { checkLiveness, type ProcessIdentity, readStartTicks } from '../process/identity.ts';
import { endExpiredLeases } from '../queue/claim/leases.ts';
import { defaultTimeoutMs } from '../schedule/period.ts';
import type { Runner } from '../settings/settings.ts';
import { removeSecondName } from '../store/sqlite/file.ts';
import type { Database } from '../store/store.ts';
import { clearDeadLocks, markDeadWorkers } from './dead-workers.ts';
import {
  endLostRun,
  identifyLost,
  type LostEnd,
  type LostRunRequest,
  type OpenRun,
  type Rescue,
  rescueJobs,
  selectOpenRuns,
} from './orphans.ts';
import { type LostSpooledRun, takeInSpool } from './replay-spool.ts';
import { sweepRunFiles } from './sweep.ts';

/** What reconciling needs to know of the runner. */
export type Reconciler = Pick<Runner, 'root' | 'state' | 'settings'>;

/** A run that outlived its runner: its script is not to be started a second time. */
export interface Orphan {
  readonly script: string;
  /** Null: it began without the log. */
  readonly jobId: number | null;
  readonly pid: number | null;
  /** On another host: whether it runs on cannot be seen from here. */
  readonly isElsewhere: boolean;
  /** "pid 4711 on web3" */
  readonly runner: string;
}

interface Reconciled {
  readonly orphans: readonly Orphan[];
  /** What somebody should know, one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Makes the log tell the truth about what died: what was recorded without it is taken in, workers
 * whose process is gone have crashed, and each run that lost its runner ends by what is known of it.
 * A run that outlived its runner is left alone until its time limit; only a worker, never somebody
 * who only looks, ends it then.
 */
export async function reconcile(
  reconciler: Reconciler,
  db: Database,
  rescue: Rescue,
): Promise<Reconciled> {
  // First: what ended without the log would be taken for dead by what follows.
  const { state, root } = reconciler;
  const takenIn = await takeInSpool(db, [state, fallbackStateFolderOf(root)], {
    workerId: null,
    at: rescue.at,
    state,
    endLostRun: async (lost) =>
      (await endRun(reconciler, describeSpooled(lost), rescue))?.run ?? null,
  });
  for (const lost of takenIn.ended) removeRunFiles(runFilesOf(lost.state, lost.run.spoolId));
  const { missedCap } = reconciler.settings.queue;
  await markDeadWorkers(db, state, rescue.at);
  const lost = await selectLostRuns(db);
  const notes = [...takenIn.notes];
  const onRefused = (sentence: string): void => void notes.push(sentence);
  const rescued = await rescueJobs(db, lost, { ...rescue, missedCap, onRefused }, (run) =>
    endRun(reconciler, describeOpen(run, state), rescue),
  );
  await noteOrphans(db, root, rescued.alive);
  // Last: by now the log knows whose handler works on, and how others have ended.
  await endExpiredLeases(db, () => rescue.at, reconciler.settings.queue);
  await sweepRunFiles(db, reconciler);
  removeSecondName(state);
  if (rescue.mayTerminate) await clearDeadLocks(db, state, rescue.at);
  return {
    orphans: [...takenIn.alive.map(toSpooledOrphan), ...rescued.alive.map(toOrphan)],
    notes,
  };
}

/** Runs of workers that have ended, whichever way: what they had begun, nobody ends any more. */
async function selectLostRuns(db: Database): Promise<readonly OpenRun[]> {
  const open = await selectOpenRuns(db);
  return open.filter(({ runnerState }) => runnerState !== 'running');
}

/** What tells one lost run from another, wherever it began. */
type Lost = Pick<
  LostRunRequest,
  'runId' | 'state' | 'startedAt' | 'process' | 'runner' | 'timeoutMs' | 'lastSeenRssBytes'
>;

function describeOpen(run: OpenRun, state: StateFolder): Lost {
  const { id: runId, startedAt, host, bootId, pid, startTicks, maxRssBytes } = run;
  return {
    runId,
    state,
    startedAt,
    process: { host, bootId, pid, startTicks },
    runner: describeRunner(run.runnerPid, host),
    timeoutMs: run.timeoutMs ?? timeoutOf(run.script),
    lastSeenRssBytes: maxRssBytes,
  };
}

function describeSpooled({ run, worker, state }: LostSpooledRun): Lost {
  const { pid, ...identity } = worker.identity;
  return {
    runId: run.spoolId,
    state,
    startedAt: run.startedAt,
    process: { ...identity, pid: null, startTicks: null },
    runner: describeRunner(pid, identity.host),
    timeoutMs: run.timeoutMs ?? timeoutOf(run.script),
    lastSeenRssBytes: null,
  };
}

function describeRunner(pid: number, host: string): string {
  return `pid ${pid} on ${host}`;
}

function timeoutOf(script: string): number {
  return defaultTimeoutMs(script.split('/', 1)[0] as string);
}

async function endRun(
  { root, settings }: Reconciler,
  lost: Lost,
  { mayTerminate, at: now }: Rescue,
): Promise<LostEnd | null> {
  const end = await endLostRun({
    ...lost,
    root,
    graceMs: GRACE_MS,
    maxOutputBytes: settings.maxOutputBytes,
    masker: createMasker(settings),
    mayTerminate,
    now,
  });
  if (end === null) return null;
  return { run: toFinishedRun(end), result: end.result ?? null, ask: end.ask ?? null };
}

function toOrphan({ script, jobId, pid, runnerPid, host, bootId }: OpenRun): Orphan {
  const isElsewhere = isOnAnotherHost({ host, bootId, pid: runnerPid, startTicks: null });
  return { script, jobId, pid, isElsewhere, runner: describeRunner(runnerPid, host) };
}

function toSpooledOrphan({ run, worker }: LostSpooledRun): Orphan {
  const runner = describeRunner(worker.identity.pid, worker.identity.host);
  const isElsewhere = isOnAnotherHost(worker.identity);
  return { script: run.script, jobId: null, pid: null, isElsewhere, runner };
}

function isOnAnotherHost(process: ProcessIdentity): boolean {
  return checkLiveness(process) === 'on-another-host';
}

/**
 * Writes down the processes of runs that outlived their worker, where that had no time to: whoever looks
 * at a job's lease sees by it that its handler works on.
 */
async function noteOrphans(db: Database, root: string, alive: readonly OpenRun[]): Promise<void> {
  for (const run of alive.filter(({ isQueued }) => isQueued)) {
    const { id: runId, host, bootId, pid, startTicks } = run;
    const found = identifyLost({ root, runId, process: { host, bootId, pid, startTicks } });
    if (found === null || found.pid === pid) continue;
    await db
      .updateTable('runs')
      .set({ pid: found.pid, pid_start_ticks: readStartTicks(found.pid) })
      .where('id', '=', runId)
      .where('outcome', '=', 'running')
      .execute();
  }
}
