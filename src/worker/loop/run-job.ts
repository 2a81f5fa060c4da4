import { endNotStarted, type RunEnd } from '../../execution/result/result.ts';
import { closeOutput, createRunFiles, removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import { type HeldScript, runHeldScript, runScript } from '../../execution/script/run-script.ts';
import type { RunRequest } from '../../execution/start/process.ts';
import { describeNoFiles } from '../../execution/start/start-failure.ts';
import type { Settled } from '../../queue/settle/settle.ts';
import { errorCode } from '../../system/base/errors.ts';
import type { Admission, Invocation } from '../invocation/invocation.ts';
import { asRecorded, createProgressReport, requestOfEach, stopIfReplaced } from './loop.ts';
import type { PassRecorder } from './pass-recorder.ts';
import type { EndedRun } from './recorder.ts';
import type { KnownHistory, ScriptHistory, ScriptRun } from './script-recorder.ts';

/** One worker's pass of one tier, whose lock it holds. */
export interface TierPass extends Invocation {
  readonly tier: string;
  readonly recorder: PassRecorder;
  /** The condition for starting a script; null: none, so the next one can be prepared ahead. */
  readonly admit: Admission | null;
}

/** A job whose turn has come, or comes next. */
export interface JobTurn {
  readonly run: ScriptRun;
  readonly history: KnownHistory;
  /** Its process, if it was started before its turn; null: it was not. */
  readonly held: HeldScript | null;
}

/** Callbacks for the work around a run: while it runs, and when it has ended. */
interface Surroundings {
  /** Called once the script's process has started. */
  onStarted(): void;
  /** Records its end. */
  end(ended: EndedRun<ScriptRun>): Promise<Settled>;
}

/** A run of the turn that has begun, and how it ended. */
type Ran = Omit<EndedRun<ScriptRun>, 'isRetryable'>;

/**
 * Runs a job's script once and records its end; null: it did not run, because its root was moved or another machine has
 * it.
 */
export async function runJob(
  pass: TierPass,
  turn: JobTurn,
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
  const settled = await recordEnd({ ...ran, isRetryable });
  const { decision, runId } = settled;
  const recorded = asRecorded(end, settled);
  const nextTryAt = decision?.state === 'retrying' ? decision.runAt : null;
  recorder.onDurable((failure) => {
    // The files stay if the log may lose the end.
    if (failure === null) removeRunFiles(runFilesOf(run.state, run.key));
    events.emit('run-finished', { key: run.key, script: script.name, runId, jobId: null, end: recorded, nextTryAt });
  });
  return recorded;
}

async function runHeld(pass: TierPass, turn: JobTurn, onStarted: () => void): Promise<Ran | null> {
  const { held, run } = turn;
  if (held === null) return null;
  const startedAt = await begin(pass, run);
  if (startedAt === null) {
    await held.drop();
    return null;
  }
  const end = await execute(pass, turn, { startedAt, onStarted }, (request) => runHeldScript(request, held));
  return end && { run, startedAt, end };
}

async function runFresh(pass: TierPass, turn: JobTurn, onStarted: () => void): Promise<Ran | null> {
  const { refusals } = turn.run.script;
  if (refusals.length > 0) {
    const startedAt = await begin(pass, turn.run);
    return startedAt === null
      ? null
      : { run: turn.run, startedAt, end: endNotStarted({ failure: refusals.join('\n') }, 0) };
  }
  const opened = await openFiles(pass.recorder, turn.run);
  if (opened === null) return null;
  const { run, output } = opened;
  const startedAt = await begin(pass, run);
  if (startedAt === null) {
    if ('fd' in output) closeOutput(output);
    removeRunFiles(runFilesOf(run.state, run.key));
    return null;
  }
  const moved = { ...turn, run };
  const end = await execute(pass, moved, { startedAt, onStarted }, (request) => runScript(request, output));
  return { run, startedAt, end };
}

/** Null: it must not begin. */
async function begin({ recorder, events }: TierPass, run: ScriptRun): Promise<number | null> {
  const startedAt = await recorder.begin(run);
  if (startedAt === null) return null;
  events.emit('run-started', { key: run.key, script: run.name, output: runFilesOf(run.state, run.key).output });
  return startedAt;
}

/**
 * Creates the files before the run counts as begun. If they cannot be made, this run and all after it move to a place
 * where they can: the log may be intact, but the files beside it changed or out of room. Null: nothing more may start.
 */
async function openFiles(recorder: PassRecorder, run: ScriptRun) {
  const output = createFiles(run);
  if (!('error' in output) || isOfProcess(output.error)) return { run, output };
  const moved = await recorder.moveElsewhere(run, output.error);
  return moved && { run: moved, output: createFiles(moved) };
}

function createFiles({ state, key, script: { launch } }: ScriptRun) {
  const input = launch.kind === 'program' ? (launch.asCaller?.input ?? null) : null;
  try {
    return createRunFiles(runFilesOf(state, key), input);
  } catch (error) {
    return { failure: describeNoFiles(error as Error), error };
  }
}

/** If this process may open no more files, no other place helps. */
function isOfProcess(error: unknown): boolean {
  return ['EMFILE', 'ENFILE'].includes(errorCode(error));
}

async function execute<End>(
  pass: TierPass,
  { run, history }: JobTurn,
  { startedAt, onStarted }: Pick<Surroundings, 'onStarted'> & { readonly startedAt: number },
  start: (request: RunRequest) => Promise<End>,
): Promise<End> {
  const { recorder, events } = pass;
  const progress = createProgressReport(
    pass,
    (seen) => recorder.recordProgress(run, startedAt, seen),
    (error) => events.emit('warning', `the process of ${run.name} could not be recorded: ${error}`),
  );
  const request = {
    ...toRequest(pass, run, history, startedAt),
    onStarted: (pid: number) => {
      progress.start(pid);
      onStarted();
    },
    onWatched: progress.watch,
    onSample: progress.sample,
  };
  return await start(request).finally(() => progress.settle());
}

/** The request to start its process, which begins at this instant. */
export function toRequest(
  pass: TierPass,
  { key, script, state, attempt, timeoutMs, job }: ScriptRun,
  { lastSuccess, previouslyCrashed }: ScriptHistory,
  startedAt: number,
): RunRequest {
  const scheduledFor = job.scheduledFor ?? startedAt;
  return {
    ...requestOfEach(pass, script, state),
    ...{ lastSuccess, previouslyCrashed, key, attempt, timeoutMs, scheduledFor },
    latenessMs: startedAt - scheduledFor,
    ...(pass.args && { args: pass.args }),
  };
}
