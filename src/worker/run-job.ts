import { defaultTimeoutMs } from '../discovery/default-timeout.ts';
import { endNotStarted } from '../execution/make-end.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { runScript } from '../execution/run-script.ts';
import { GRACE_MS } from '../execution/terminate.ts';
import { type ClaimedJob, claimJob } from '../queue/claim-job.ts';
import type { QueuedJob } from '../queue/enqueue-scripts.ts';
import { finishJob } from '../queue/finish-job.ts';
import { readScriptHistory } from '../queue/script-history.ts';
import { toFinishedRun } from './finished-run.ts';
import type { Pass } from './pass.ts';
import { createProcessRecorder } from './record-process.ts';

/** Claims a job, runs its script, records how it ended. Null: somebody else had claimed it. */
export async function runJob(pass: Pass, job: QueuedJob): Promise<RunEnd | null> {
  const claimed = await pass.store.withoutSync((db) =>
    claimJob(db, job, pass.workerId, pass.runner.now()),
  );
  if (claimed === null) return null;
  const started = { runId: claimed.runId, script: job.script.name };
  pass.events.emit('run-started', started);
  const end = await execute(pass, claimed);
  await finishJob(pass.store.db, claimed, pass.workerId, toFinishedRun(end));
  removeRunFiles(runFilesOf(pass.runner.state, claimed.runId));
  pass.events.emit('run-finished', { ...started, end });
  return end;
}

async function execute(pass: Pass, job: ClaimedJob): Promise<RunEnd> {
  const { runner, store, stop } = pass;
  const { script } = job;
  if (script.refusals.length > 0) return endNotStarted(script.refusals.join('\n'), 0);
  const recorder = createProcessRecorder(pass, job);
  const end = await runScript({
    ...(await readScriptHistory(store.db, script.name, job.runId)),
    runId: job.runId,
    script,
    root: runner.root,
    state: runner.state,
    probePath: runner.probePath,
    attempt: job.attempt,
    scheduledFor: job.scheduledFor ?? job.startedAt,
    timeoutMs: script.options.timeoutMs ?? defaultTimeoutMs(script.tier),
    graceMs: GRACE_MS,
    maxOutputBytes: runner.settings.maxOutputBytes,
    variables: runner.settings.env,
    environment: runner.environment,
    stop: stop.signal,
    kill: stop.kill,
    onStarted: recorder.start,
  });
  await recorder.settle();
  return end;
}
