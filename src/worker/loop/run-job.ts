import { runScript } from '../../execution/isolated/run-script.ts';
import { endNotStarted, type RunEnd } from '../../execution/result/result.ts';
import { removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import { createMasker } from '../../execution/secrets.ts';
import { GRACE_MS } from '../../execution/watch/terminate.ts';
import { readStartTicks } from '../../process/identity.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import type { TierPass } from '../invocation/invocation.ts';
import type { BegunRun, PassJob, RunProgress } from '../record/run-recorder.ts';

/** Runs a job's script once and records how it ended. Null: another worker has the job. */
export async function runJob(pass: TierPass, job: PassJob): Promise<RunEnd | null> {
  const { recorder, events } = pass;
  const { script } = job;
  const timeoutMs = script.options.timeoutMs ?? defaultTimeoutMs(script.tier);
  const run = await recorder.begin(job, timeoutMs);
  if (run === null) return null;
  const started = { key: run.key, script: script.name };
  events.emit('run-started', started);
  const isRefused = script.refusals.length > 0;
  const end = isRefused
    ? endNotStarted(script.refusals.join('\n'), 0)
    : await execute(pass, run, timeoutMs);
  const { decision, runId } = await recorder.end(run, end, !isRefused);
  const nextTryAt = decision?.state === 'retrying' ? decision.runAt : null;
  recorder.onDurable(() => {
    removeRunFiles(runFilesOf(run.state, run.key));
    events.emit('run-finished', { ...started, runId, jobId: null, end, nextTryAt });
  });
  return end;
}

async function execute(pass: TierPass, run: BegunRun, timeoutMs: number): Promise<RunEnd> {
  const { runner, recorder, events, stop } = pass;
  const { script } = run;
  const progress = createProgressReport(
    (seen) => recorder.recordProgress(run, seen),
    (error) =>
      events.emit('warning', `the process of ${script.name} could not be recorded: ${error}`),
  );
  const running = runScript({
    ...(await recorder.readHistory(run)),
    key: run.key,
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
    onStarted: progress.start,
    onSample: progress.sample,
  });
  return await running.finally(() => progress.settle());
}

export interface ProgressReport {
  start(pid: number): void;
  /** Takes the most memory that the run was seen with so far. */
  sample(maxRssBytes: number): void;
  /** To be awaited once the run has ended. */
  settle(): Promise<void>;
}

/** Most scripts are over before anybody could ask who they are; a write right after a fork is dear. */
const RECORD_AFTER_MS = 100;

/** How old the last memory seen may be of a run that dies with its runner. */
const REPEAT_MS = 10_000;

/** Writes down which process a run is, for the report and for whoever finds it without its runner. */
export function createProgressReport(
  write: (progress: RunProgress) => Promise<void>,
  onFailure: (error: unknown) => void,
): ProgressReport {
  let timer: NodeJS.Timeout | undefined;
  let recorded: Promise<unknown> = Promise.resolve();
  let maxRssBytes: number | null = null;
  let written: number | null = null;
  const record = (pid: number, startTicks: number | null): void => {
    written = maxRssBytes;
    // Nobody waits for it before the script's end: unhandled until then, it would end the runner.
    recorded = recorded.then(() => write({ pid, startTicks, maxRssBytes })).catch(onFailure);
  };
  return {
    start: (pid) => {
      // A Node that hung before its first line is started a second time.
      clearTimeout(timer);
      timer = setTimeout(() => {
        const startTicks = readStartTicks(pid);
        record(pid, startTicks);
        timer = setInterval(() => written !== maxRssBytes && record(pid, startTicks), REPEAT_MS);
      }, RECORD_AFTER_MS);
    },
    sample: (bytes) => {
      maxRssBytes = bytes;
    },
    settle: async () => {
      clearTimeout(timer);
      await recorded;
    },
  };
}
