import type { HeldScript } from '../../execution/isolated/held-script.ts';
import { runScript } from '../../execution/isolated/run-script.ts';
import { endNotStarted, type RunEnd } from '../../execution/result/result.ts';
import { removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import { createMasker, type Masker } from '../../execution/secrets.ts';
import type { StartRequest } from '../../execution/start/request.ts';
import { GRACE_MS } from '../../execution/watch/terminate.ts';
import { readStartTicks } from '../../process/identity.ts';
import type { Runner } from '../../settings/settings.ts';
import type { TierPass } from '../invocation/invocation.ts';
import {
  type BegunRun,
  type ClaimedRun,
  type EndedScript,
  type KnownHistory,
  type RecordedRun,
  type RunProgress,
  type ScriptHistory,
  toBegun,
} from '../record/run-recorder.ts';

/** A job whose turn has come, or comes next. */
export interface Turn {
  readonly run: ClaimedRun;
  readonly history: KnownHistory;
  /** Its process, where that was started before its turn. */
  readonly held: HeldScript | null;
}

/** What others have to do while a job is run, and when it has ended. */
interface Surroundings {
  /** Called once the script's process is started. */
  onStarted(): void;
  /** Records its end. */
  end(ended: EndedScript): Promise<RecordedRun>;
}

/** Runs a job's script once and records how it ended. */
export async function runJob(
  pass: TierPass,
  turn: Turn,
  { onStarted, end: recordEnd }: Surroundings,
): Promise<RunEnd> {
  const { recorder, events } = pass;
  const { script } = turn.run;
  const run = await recorder.begin(turn.run);
  const started = { key: run.key, script: script.name };
  events.emit('run-started', started);
  const isRefused = script.refusals.length > 0;
  const end = isRefused
    ? endNotStarted(script.refusals.join('\n'), 0)
    : await execute(pass, { ...turn, run }, onStarted);
  const { decision, runId } = await recordEnd({ run, end, isRetryable: !isRefused });
  const nextTryAt = decision?.state === 'retrying' ? decision.runAt : null;
  recorder.onDurable(() => {
    removeRunFiles(runFilesOf(run.state, run.key));
    events.emit('run-finished', { ...started, runId, jobId: null, end, nextTryAt });
  });
  return end;
}

interface BegunTurn extends Turn {
  readonly run: BegunRun;
}

async function execute(pass: TierPass, turn: BegunTurn, onStarted: () => void): Promise<RunEnd> {
  const { recorder, events } = pass;
  const { run, history, held } = turn;
  const progress = createProgressReport(
    (seen) => recorder.recordProgress(run, seen),
    (error) =>
      events.emit('warning', `the process of ${run.script.name} could not be recorded: ${error}`),
  );
  const request = {
    ...toRequest(pass, run, history),
    onStarted: (pid: number) => {
      progress.start(pid);
      onStarted();
    },
    onSample: progress.sample,
  };
  return await runScript(request, held).finally(() => progress.settle());
}

/** All that its process is started with; of a run that has not begun, as if it did now. */
export function toRequest(
  { runner, stop }: TierPass,
  claimed: ClaimedRun | BegunRun,
  { lastSuccess, previouslyCrashed }: ScriptHistory,
): StartRequest {
  const run = 'startedAt' in claimed ? claimed : toBegun(claimed, runner.now());
  const { script } = run;
  return {
    ...{ lastSuccess, previouslyCrashed, script },
    key: run.key,
    root: runner.root,
    state: run.state,
    probePath: runner.probePath,
    attempt: run.attempt,
    scheduledFor: run.scheduledFor ?? run.startedAt,
    startedAt: run.startedAt,
    timeoutMs: run.timeoutMs,
    graceMs: GRACE_MS,
    maxOutputBytes: script.options.maxOutputBytes ?? runner.settings.maxOutputBytes,
    variables: runner.settings.env,
    environment: runner.environment,
    masker: maskerOf(runner),
    stop: stop.signal,
    kill: stop.kill,
  };
}

const maskers = new WeakMap<Runner, Masker>();

/** Looking for secrets in the environment is too dear for each run. */
export function maskerOf(runner: Runner): Masker {
  const masker = maskers.get(runner) ?? createMasker(runner.settings, runner.environment);
  maskers.set(runner, masker);
  return masker;
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
