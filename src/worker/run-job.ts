import { defaultTimeoutMs } from '../discovery/default-timeout.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { endNotStarted, runScript } from '../execution/run-script.ts';
import { type ClaimedJob, claimJob } from '../queue/claim-job.ts';
import type { QueuedJob } from '../queue/enqueue-scripts.ts';
import { finishJob } from '../queue/finish-job.ts';
import { readScriptHistory } from '../queue/script-history.ts';
import type { FinishedRun } from '../store/schema.ts';
import type { Pass } from './pass.ts';
import { createProcessRecorder } from './record-process.ts';

/** Time that a script has between SIGTERM and SIGKILL. */
const GRACE_MS = 10_000;

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
    onStarted: recorder.start,
  });
  await recorder.settle();
  return end;
}

function toFinishedRun(end: RunEnd): FinishedRun {
  return {
    outcome: end.outcome,
    finished_at: end.finishedAt,
    duration_ms: end.durationMs,
    user_cpu_ms: end.userCpuMs,
    system_cpu_ms: end.systemCpuMs,
    max_rss_bytes: end.maxRssBytes,
    measured_by: end.measuredBy,
    exit_code: end.exitCode,
    signal: end.signal,
    reason: end.reason,
    error_name: end.error?.name ?? null,
    error_message: end.error?.message ?? null,
    error_stack: end.error?.stack ?? null,
    output: end.output.text,
    output_bytes: end.output.bytes,
    output_dropped_bytes: end.output.droppedBytes,
    output_file: end.output.file,
    output_file_bytes: end.output.fileBytes,
  };
}
