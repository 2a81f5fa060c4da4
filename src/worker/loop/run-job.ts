import type { Script } from '../../discovery/script.ts';
import { endNotStarted, endUnmeasured, noOutput, type RunEnd } from '../../execution/result/result.ts';
import { createRunFiles, removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import type { HeldScript } from '../../execution/script/held-script.ts';
import { runHeldScript, runScript } from '../../execution/script/run-script.ts';
import { leaveNote } from '../../execution/secret-notes.ts';
import { findSecrets, type Masker, maskSecrets, type NotedSecret, noteSecret } from '../../execution/secrets.ts';
import type { HandlerRequest, RunRequest, StartRequest } from '../../execution/start/request.ts';
import { describeNoFiles, isReplaced } from '../../execution/start/start-failure.ts';
import { type BegunEnd, type HandlerRunner, isKeptWarm } from '../../execution/warm/run.ts';
import { GRACE_MS } from '../../execution/watch/terminate.ts';
import { describeChildren } from '../../queue/settle/families.ts';
import type { Runner } from '../../settings/settings.ts';
import { isStoreFailure } from '../../store/failures.ts';
import { isFailure } from '../../store/schema.ts';
import { errorCode } from '../../system/base/errors.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { readStartTicks } from '../../system/process/identity.ts';
import type { Invocation, StoreInvocation, TierPass } from '../invocation/invocation.ts';
import type { HandledRun, HeldJob, QueueRecorder } from '../record/queue-recorder.ts';
import {
  type BegunRun,
  type ClaimedRun,
  type EndedScript,
  type KnownHistory,
  type RecordedRun,
  type RunProgress,
  type RunRecorder,
  type ScriptHistory,
  toBegun,
} from '../record/run-recorder.ts';

/** A job whose turn has come, or comes next. */
export interface ScriptTurn {
  readonly run: ClaimedRun;
  readonly history: KnownHistory;
  /** Its process, where that was started before its turn. */
  readonly held: HeldScript | null;
}

/** What is given back for it is due at once, and would not begin then either, again and again. */
function stopIfReplaced({ stop }: Invocation, { reason }: RunEnd): void {
  if (reason !== null && isReplaced(reason)) stop.startNothing(reason);
}

/** What others have to do while a job is run, and when it has ended. */
interface Surroundings {
  /** Called once the script's process is started. */
  onStarted(): void;
  /** Records its end. */
  end(ended: EndedScript): Promise<RecordedRun>;
}

/** Runs a job's script once and records how it ended; null: it was not, as its root was moved. */
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
  const isRetryable = script.refusals.length === 0;
  const { decision, runId } = await recordEnd({ run, end, isRetryable });
  const nextTryAt = decision?.state === 'retrying' ? decision.runAt : null;
  recorder.onDurable(() => {
    removeRunFiles(runFilesOf(run.state, run.key));
    events.emit('run-finished', { key: run.key, script: script.name, runId, jobId: null, end, nextTryAt });
  });
  return end;
}

type RunOfTurn = Pick<EndedScript, 'run' | 'end'>;

async function runHeld(pass: TierPass, turn: ScriptTurn, onStarted: () => void): Promise<RunOfTurn | null> {
  const { held } = turn;
  if (held === null) return null;
  const run = await begin(pass, turn.run);
  const end = await execute(pass, { ...turn, run }, onStarted, (request) => runHeldScript(request, held));
  return end && { run, end };
}

async function runFresh(pass: TierPass, turn: ScriptTurn, onStarted: () => void): Promise<RunOfTurn | null> {
  const { refusals } = turn.run.script;
  if (refusals.length > 0) {
    return { run: await begin(pass, turn.run), end: endNotStarted(refusals.join('\n'), 0) };
  }
  const opened = await openFiles(pass.recorder, turn.run);
  if (opened === null) return null;
  const run = await begin(pass, opened.claimed);
  const end = await execute(pass, { ...turn, run }, onStarted, (request) => runScript(request, opened.output));
  return { run, end };
}

async function begin({ recorder, events }: TierPass, claimed: ClaimedRun): Promise<BegunRun> {
  const run = await recorder.begin(claimed);
  events.emit('run-started', { key: run.key, script: run.script.name });
  return run;
}

/**
 * Before the run counts as begun: where its files cannot be made, it and all after it go where they can. The log
 * may be fine, and what is beside it changed, or without room. Null: nothing is to be started any more.
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

/** No other place helps where this process may open no more files. */
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
    masker: maskerOf(runner, run.state),
    stop: stop.signal,
    kill: stop.kill,
  };
}

interface Known {
  readonly noted: readonly NotedSecret[];
  readonly masker: Masker;
}

const known = new WeakMap<Runner, Known>();

/** @param state where the run has its files: there is noted, before its process starts, how its secrets are found */
function maskerOf(runner: Runner, state: StateFolder): Masker {
  const { noted, masker } = known.get(runner) ?? findOut(runner);
  leaveNote(state, noted);
  return masker;
}

/** Looking for secrets in the environment is too dear for each run. */
function findOut(runner: Runner): Known {
  const secrets = findSecrets(runner.settings, runner.environment);
  const found = { noted: secrets.map(noteSecret), masker: maskSecrets(secrets) };
  known.set(runner, found);
  return found;
}

interface ProgressReport {
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
function createProgressReport(
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

/** What one executor needs to run the handlers of its jobs. */
export interface HandlerEquipment {
  readonly call: StoreInvocation;
  readonly recorder: QueueRecorder;
  readonly runner: HandlerRunner;
}

/** Among which other runs these are. */
interface Serving {
  /** The runs of this executor that may not be in the log. */
  readonly unsettled: ReadonlySet<string>;
  /** Told once a run has lasted a moment, and that none but so many have begun, or will. */
  readonly onLasting?: (begun: number) => Promise<void>;
}

/** Runs a claimed job's handler once; whatever it does is a value. */
export async function runHandler(
  executor: HandlerEquipment,
  claimed: HeldJob,
  serving: Serving = { unsettled: new Set() },
): Promise<HandledRun> {
  const startedAt = executor.call.runner.now();
  const { job, handler } = claimed;
  const ran = { claimed, startedAt };
  if (handler === null) {
    const reason = `there is no handler jobs/queue/${job.name} here`;
    return { ...ran, end: endNotStarted(reason, 0), isRetryable: false };
  }
  const prepared = await prepare(executor, claimed, handler, startedAt);
  if ('refusal' in prepared) {
    return { ...ran, end: endNotStarted(prepared.refusal, 0), isRetryable: false };
  }
  const [run] = await executeHandler(executor, [{ claimed, script: handler, job: prepared.job }], serving);
  return run as HandledRun;
}

/**
 * Runs claimed jobs that are known to be short, one after the other, in the child that waits.
 *
 * @param claimed jobs that are like most
 * @returns the runs of those that have begun
 */
export async function runHandlers(
  executor: HandlerEquipment,
  claimed: readonly HeldJob[],
  serving: Serving,
): Promise<readonly HandledRun[]> {
  const [first] = claimed;
  if (first === undefined) return [];
  if (claimed.length === 1) return [await runHandler(executor, first, serving)];
  const startedAt = executor.call.runner.now();
  const calls = claimed.map((each) => ({
    claimed: each,
    script: each.handler as Script,
    job: describePlain(each, startedAt),
  }));
  return await executeHandler(executor, calls, serving);
}

/** So short a limit is that of one run, not of some. */
const SHORTEST_LIMIT_MS = 1_000;

/** Whether all that its handler is told of is in its row, and it shares a process with others. */
export function isLikeMost({ job, handler, attempt, timeoutMs }: HeldJob): boolean {
  if (handler === null || handler.refusals.length > 0 || !isKeptWarm(handler)) return false;
  const isAlone = job.parent_id === null && !job.has_unreported_children && job.repeat === null;
  return isAlone && attempt === 1 && timeoutMs >= SHORTEST_LIMIT_MS;
}

function describePlain({ job, attempt }: HeldJob, startedAt: number): DescribedJob {
  return {
    id: job.id,
    name: job.name,
    data: job.data,
    attempt,
    scheduledFor: job.scheduled_for,
    startedAt,
    latenessMs: startedAt - job.run_at,
    lastSuccess: null,
    previouslyCrashed: false,
    parentData: null,
    children: null,
  };
}

/** One job must not take the worker with it, nor the jobs of its other executors. */
function endDefect({ runner }: HandlerEquipment, error: unknown): RunEnd {
  if (isStoreFailure(error)) throw error;
  runner.abandon();
  const reason = `the runner failed to run it: ${error instanceof Error ? error.message : error}`;
  const finishedAt = Date.now();
  return endUnmeasured({
    outcome: 'failed',
    finishedAt,
    durationMs: null,
    reason,
    output: noOutput,
  });
}

/** It failed because it was ended with its worker, by that or by whoever ended both: that is no try of its own. */
function releaseIfEnded({ stop }: StoreInvocation, end: RunEnd): RunEnd {
  const { outcome, signal } = end;
  const isToldToo = outcome === 'killed' && ['SIGTERM', 'SIGINT', 'SIGHUP'].includes(signal ?? '');
  const isEnded = stop.signal.aborted || (stop.isTold && isToldToo);
  // A time limit was reached before that.
  if (!isEnded || !isFailure(outcome) || outcome === 'timed-out') return end;
  const asked = end.ask?.kind === 'retry' && end.ask;
  return { ...end, outcome: 'released', ask: { kind: 'retry', delayMs: 0, ...asked } };
}

/** What a handler is told of its job. */
type DescribedJob = HandlerRequest['job'];

async function prepare(
  { call }: HandlerEquipment,
  claimed: HeldJob,
  { refusals }: Script,
  startedAt: number,
): Promise<{ readonly job: DescribedJob } | { readonly refusal: string }> {
  if (refusals.length > 0) return { refusal: refusals.join('\n') };
  const { job, attempt } = claimed;
  const { store } = call;
  const children = job.has_unreported_children ? await describeChildren(store, job.id) : null;
  if (children !== null && 'problem' in children) return { refusal: children.problem };
  const [parent] = job.parent_id === null ? [] : await store.jobs.byId([job.parent_id]);
  return {
    job: {
      ...describePlain(claimed, startedAt),
      lastSuccess: job.repeat === null ? null : await store.runs.lastSuccess(job.id),
      previouslyCrashed: attempt > 1 && (await store.runs.hasTryCrashed(job.id)),
      parentData: parent?.data ?? null,
      children: children?.json ?? null,
    },
  };
}

/** A handler that is to be called. */
interface Call {
  readonly claimed: HeldJob;
  readonly script: Script;
  readonly job: DescribedJob;
}

async function executeHandler(
  executor: HandlerEquipment,
  calls: readonly Call[],
  { unsettled, onLasting }: Serving,
): Promise<readonly HandledRun[]> {
  const { recorder, call } = executor;
  let begun = calls.length;
  // Of several, only one can last.
  let lasting = calls[0] as Call;
  let startedAt = lasting.job.startedAt;
  const progress = createProgressReport(
    async (seen) => {
      await onLasting?.(begun);
      await recorder.recordProgress(lasting.claimed, startedAt, seen);
    },
    (error) => call.events.emit('warning', `the process of ${lasting.script.name} could not be recorded: ${error}`),
  );
  const requests = calls.map((each, index) =>
    requestOf(executor, each, {
      onSample: progress.sample,
      onStarted: (pid) => {
        if (index > 0) startedAt = call.runner.now();
        lasting = each;
        progress.start(pid);
      },
    }),
  );
  const running = executor.runner.runSome({
    requests: requests as [HandlerRequest, ...HandlerRequest[]],
    unsettled,
    onLasting: (count) => {
      begun = count;
    },
  });
  const ends = await running
    .catch((error): readonly BegunEnd[] => [{ end: endDefect(executor, error), afterMs: 0 }])
    .finally(() => progress.settle());
  return ends.map(({ end, afterMs }, index) => {
    const { claimed, job } = calls[index] as Call;
    stopIfReplaced(call, end);
    const startedAt = job.startedAt + Math.round(afterMs);
    return { claimed, startedAt, end: releaseIfEnded(executor.call, end), isRetryable: true };
  });
}

function requestOf(
  { call, recorder }: HandlerEquipment,
  { claimed, script, job }: Call,
  told: Pick<HandlerRequest, 'onStarted' | 'onSample'>,
): HandlerRequest {
  const { runner, stop } = call;
  const { claim, timeoutMs } = claimed;
  return {
    ...told,
    key: claim.token,
    script,
    job,
    root: runner.root,
    state: runner.state,
    probePath: runner.probePath,
    timeoutMs,
    graceMs: GRACE_MS,
    maxOutputBytes: script.options.maxOutputBytes ?? runner.settings.maxOutputBytes,
    variables: runner.settings.env,
    environment: runner.environment,
    masker: maskerOf(runner, runner.state),
    stop: stop.signal,
    kill: stop.kill,
    onUpdate: (data) => recorder.update(claim, data),
  };
}
