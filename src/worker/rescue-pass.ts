import { defaultTimeoutMs } from '../discovery/default-timeout.ts';
import type { Script } from '../discovery/script.ts';
import { endLostRun } from '../execution/end-lost-run.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { GRACE_MS } from '../execution/terminate.ts';
import { type LostRun, rescueJobs } from '../queue/rescue-jobs.ts';
import type { FinishedRun } from '../store/schema.ts';
import { toFinishedRun } from './finished-run.ts';
import type { Pass } from './pass.ts';

/**
 * Ends what dead workers left behind in this tier.
 *
 * @returns runs that outlived their runner: their scripts are not to be started a second time
 */
export async function rescuePass(
  pass: Pass,
  scripts: readonly Script[],
  at: number,
): Promise<readonly LostRun[]> {
  const { store, runner, workerId, tier } = pass;
  const rescued = await rescueJobs(store.db, { workerId, tier, at }, (run) =>
    endRun(pass, scripts, run, at),
  );
  for (const { id } of rescued.ended) removeRunFiles(runFilesOf(runner.state, id));
  return rescued.alive;
}

async function endRun(
  { runner, tier }: Pass,
  scripts: readonly Script[],
  run: LostRun,
  now: number,
): Promise<FinishedRun | null> {
  const script = scripts.find(({ name }) => name === run.script);
  const end = await endLostRun({
    runId: run.id,
    root: runner.root,
    state: runner.state,
    startedAt: run.startedAt,
    process: { host: run.host, bootId: run.bootId, pid: run.pid, startTicks: run.startTicks },
    runner: run.runner,
    timeoutMs: script?.options.timeoutMs ?? defaultTimeoutMs(tier),
    graceMs: GRACE_MS,
    maxOutputBytes: runner.settings.maxOutputBytes,
    now,
  });
  return end === null ? null : toFinishedRun(end);
}
