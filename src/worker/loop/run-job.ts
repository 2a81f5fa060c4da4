import { endNotStarted, type RunEnd } from '../../execution/result/result.ts';
import { closeOutput, createRunFiles, removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import type { HeldScript } from '../../execution/script/held-script.ts';
import { runHeldScript, runScript } from '../../execution/script/run-script.ts';
import type { RunRequest, StartRequest } from '../../execution/start/request.ts';
import { describeNoFiles } from '../../execution/start/start-failure.ts';
import { errorCode } from '../../system/base/errors.ts';
import type { TierPass } from '../invocation/invocation.ts';
import {
  type BegunRun,
  type ClaimedRun,
  type EndedScript,
  type KnownHistory,
  type RecordedRun,
  type RunRecorder,
  type ScriptHistory,
  toBegun,
} from '../record/run-recorder.ts';
import { asRecorded, createProgressReport, requestOfEach, stopIfReplaced } from './each-run.ts';

/** A job whose turn has come, or comes next. */
export interface ScriptTurn {
  readonly run: ClaimedRun;
  readonly history: KnownHistory;
  /** Its process, if it was started before its turn; null: it was not. */
  readonly held: HeldScript | null;
}

/** Callbacks for the work around a run: while it runs, and when it has ended. */
interface Surroundings {
  /** Called once the script's process has started. */
  onStarted(): void;
  /** Records its end. */
  end(ended: EndedScript): Promise<RecordedRun>;
}

/**
 * Runs a job's script once and records its end; null: it did not run, because its root was moved or another machine has
 * it.
 */
export async function runJob(
  pass: TierPass,
  turn: ScriptTurn,
  { onStarted, end: recordEnd }: Surroundings,
): Promise<RunEnd | null> {
  const { recorder, events } = pass;
  const { script } = turn.run;
  const ran = (await runHeld(pass, turn, onStarted)) ?? (await runFresh(pass, turn, onStarted));
  if (ran === null) return null;
  const { run, end } = ran;
  stopIfReplaced(pass, end);
  // A later try would not have the arguments.
  const isRetryable = script.refusals.length === 0 && pass.args === undefined;
  const { decision, runId, refusal } = await recordEnd({ run, end, isRetryable });
  const recorded = asRecorded(end, refusal);
  const nextTryAt = decision?.state === 'retrying' ? decision.runAt : null;
  recorder.onDurable((failure) => {
    // The files stay if the log may lose the end.
    if (failure === null) removeRunFiles(runFilesOf(run.state, run.key));
    events.emit('run-finished', { key: run.key, script: script.name, runId, jobId: null, end: recorded, nextTryAt });
  });
  return recorded;
}

type RunOfTurn = Pick<EndedScript, 'run' | 'end'>;

async function runHeld(pass: TierPass, turn: ScriptTurn, onStarted: () => void): Promise<RunOfTurn | null> {
  const { held } = turn;
  if (held === null) return null;
  const run = await begin(pass, turn.run);
  if (run === null) {
    await held.drop();
    return null;
  }
  const end = await execute(pass, { ...turn, run }, onStarted, (request) => runHeldScript(request, held));
  return end && { run, end };
}

async function runFresh(pass: TierPass, turn: ScriptTurn, onStarted: () => void): Promise<RunOfTurn | null> {
  const { refusals } = turn.run.script;
  if (refusals.length > 0) {
    const run = await begin(pass, turn.run);
    return run && { run, end: endNotStarted(refusals.join('\n'), 0) };
  }
  const opened = await openFiles(pass.recorder, turn.run);
  if (opened === null) return null;
  const run = await begin(pass, opened.claimed);
  if (run === null) {
    if ('fd' in opened.output) closeOutput(opened.output);
    removeRunFiles(runFilesOf(opened.claimed.state, opened.claimed.key));
    return null;
  }
  const end = await execute(pass, { ...turn, run }, onStarted, (request) => runScript(request, opened.output));
  return { run, end };
}

async function begin({ recorder, events }: TierPass, claimed: ClaimedRun): Promise<BegunRun | null> {
  const run = await recorder.begin(claimed);
  if (run === null) return null;
  events.emit('run-started', { key: run.key, script: run.script.name, output: runFilesOf(run.state, run.key).output });
  return run;
}

/**
 * Creates the files before the run counts as begun. If they cannot be made, this run and all after it move to a place
 * where they can: the log may be intact, but the files beside it changed or out of room. Null: nothing more may start.
 */
async function openFiles(recorder: RunRecorder, claimed: ClaimedRun) {
  const output = createFiles(claimed);
  if (!('error' in output) || isOfProcess(output.error)) return { claimed, output };
  const moved = await recorder.moveElsewhere(claimed, output.error);
  return moved && { claimed: moved, output: createFiles(moved) };
}

function createFiles({ state, key }: ClaimedRun) {
  try {
    return createRunFiles(runFilesOf(state, key));
  } catch (error) {
    return { failure: describeNoFiles(error as Error), error };
  }
}

/** If this process may open no more files, no other place helps. */
function isOfProcess(error: unknown): boolean {
  return ['EMFILE', 'ENFILE'].includes(errorCode(error));
}

interface BegunTurn extends Pick<ScriptTurn, 'history'> {
  readonly run: BegunRun;
}

async function execute<End>(
  pass: TierPass,
  turn: BegunTurn,
  onStarted: () => void,
  start: (request: RunRequest) => Promise<End>,
): Promise<End> {
  const { recorder, events } = pass;
  const { run, history } = turn;
  const progress = createProgressReport(
    (seen) => recorder.recordProgress(run, seen),
    (error) => events.emit('warning', `the process of ${run.script.name} could not be recorded: ${error}`),
  );
  const request = {
    ...toRequest(pass, run, history),
    onStarted: (pid: number) => {
      progress.start(pid);
      onStarted();
    },
    onSample: progress.sample,
  };
  return await start(request).finally(() => progress.settle());
}

/** The request to start its process; for a run that has not begun, as if it began now. */
export function toRequest(
  pass: TierPass,
  claimed: ClaimedRun | BegunRun,
  { lastSuccess, previouslyCrashed }: ScriptHistory,
): StartRequest {
  const run = 'startedAt' in claimed ? claimed : toBegun(claimed, pass.runner.now());
  const { key, attempt, startedAt, scheduledFor, timeoutMs } = run;
  return {
    ...requestOfEach(pass, run.script, run.state),
    ...{ lastSuccess, previouslyCrashed, key, attempt, startedAt, timeoutMs },
    scheduledFor: scheduledFor ?? startedAt,
    ...(pass.args && { args: pass.args }),
  };
}
