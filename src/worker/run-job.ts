import { defaultTimeoutMs } from '../discovery/default-timeout.ts';
import { endNotStarted } from '../execution/make-end.ts';
import { createMasker } from '../execution/mask-secrets.ts';
import type { RunEnd } from '../execution/run-end.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { runScript } from '../execution/run-script.ts';
import { GRACE_MS } from '../execution/terminate.ts';
import type { BegunRun, PassJob } from './journal.ts';
import type { Pass } from './pass.ts';
import { createProgressRecorder } from './record-progress.ts';

/** Runs a job's script once and records how it ended. Null: another worker has the job. */
export async function runJob(pass: Pass, job: PassJob): Promise<RunEnd | null> {
  const { journal, events } = pass;
  const { script } = job;
  const timeoutMs = script.options.timeoutMs ?? defaultTimeoutMs(script.tier);
  const run = await journal.begin(job, timeoutMs);
  if (run === null) return null;
  const started = { runId: run.runId, script: script.name };
  events.emit('run-started', started);
  const isRefused = script.refusals.length > 0;
  const end = isRefused
    ? endNotStarted(script.refusals.join('\n'), 0)
    : await execute(pass, run, timeoutMs);
  const verdict = await journal.end(run, end, !isRefused);
  removeRunFiles(runFilesOf(run.state, run.runId));
  const nextTryAt = verdict?.state === 'retrying' ? verdict.runAt : null;
  events.emit('run-finished', { ...started, jobId: null, end, nextTryAt });
  return end;
}

async function execute(pass: Pass, run: BegunRun, timeoutMs: number): Promise<RunEnd> {
  const { runner, journal, stop } = pass;
  const { script } = run;
  const recorder = createProgressRecorder(pass, run);
  const running = runScript({
    ...(await journal.readHistory(run)),
    runId: run.runId,
    script,
    root: runner.root,
    state: run.state,
    probePath: runner.probePath,
    attempt: run.attempt,
    scheduledFor: run.scheduledFor ?? run.startedAt,
    startedAt: run.startedAt,
    timeoutMs,
    graceMs: GRACE_MS,
    maxOutputBytes: script.options.maxOutputBytes ?? runner.settings.maxOutputBytes,
    variables: runner.settings.env,
    environment: runner.environment,
    masker: createMasker(runner.settings, runner.environment),
    stop: stop.signal,
    kill: stop.kill,
    onStarted: recorder.start,
    onSample: recorder.sample,
  });
  return await running.finally(() => recorder.settle());
}
