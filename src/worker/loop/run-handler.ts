import type { Script } from '../../discovery/script.ts';
import {
  endNotStarted,
  endUnmeasured,
  noOutput,
  type RunEnd,
} from '../../execution/result/result.ts';
import { createMasker, type Masker } from '../../execution/secrets.ts';
import type { HandlerRunner } from '../../execution/warm/run.ts';
import { GRACE_MS } from '../../execution/watch/terminate.ts';
import type { ClaimedRow } from '../../queue/claim/claim.ts';
import { recordProgress } from '../../queue/claim/script-claim.ts';
import { hasEarlierTryCrashed, readScriptHistory } from '../../queue/read/history.ts';
import { describeUntellable, tellEndedChildren } from '../../queue/settle/families.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import { isStoreFailure } from '../../store/failures.ts';
import { isFailure } from '../../store/schema.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import type { HandledRun, QueueJournal } from '../record/queue-recorder.ts';
import { createProgressRecorder, type ProgressTeller } from './run-job.ts';

/** What one lane needs to run the handlers of its jobs. */
export interface HandlerLane {
  readonly call: StoreInvocation;
  readonly journal: QueueJournal;
  readonly runner: HandlerRunner;
  /** Null: there is none here. */
  findHandler(name: string): Script | null;
}

/** Runs a claimed job's handler once; whatever it does is a value. */
export async function runHandler(lane: HandlerLane, claimed: ClaimedRow): Promise<HandledRun> {
  const { claim, job } = claimed;
  const script = lane.findHandler(job.name);
  const refusal =
    script === null
      ? `there is no handler jobs/queue/${job.name} here`
      : await findRefusal(lane, claimed, script);
  if (script === null || refusal !== null) {
    return { claim, end: endNotStarted(refusal ?? '', 0), isRetryable: false };
  }
  const end = await execute(lane, claimed, script).catch((error) => endDefect(lane, error));
  return { claim, end: releaseIfEnded(lane.call, end), isRetryable: true };
}

/** One job must not take the worker with it, nor the jobs of its other lanes. */
function endDefect({ runner }: HandlerLane, error: unknown): RunEnd {
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

async function findRefusal(
  { call }: HandlerLane,
  { job, hasEndedChildren }: ClaimedRow,
  { refusals }: Script,
): Promise<string | null> {
  if (refusals.length > 0) return refusals.join('\n');
  return hasEndedChildren ? await describeUntellable(call.store.db, job.id) : null;
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

async function execute(lane: HandlerLane, claimed: ClaimedRow, script: Script): Promise<RunEnd> {
  const { runner, stop, events, store } = lane.call;
  const { job, claim } = claimed;
  const { state } = runner;
  const timeoutMs = claimed.timeoutMs ?? defaultTimeoutMs(script.tier);
  const journal: ProgressTeller['journal'] = {
    recordProgress: ({ runId }, progress) =>
      store.withoutSync((db) => recordProgress(db, runId as number, progress)),
  };
  const scheduledFor = job.scheduled_for;
  const run = { ...claim, script, scheduledFor, timeoutMs, state, claim };
  const recorder = createProgressRecorder({ journal, events }, run);
  const running = lane.runner.run({
    runId: claim.runId,
    script,
    job: await describeJob(lane, claimed),
    root: runner.root,
    state,
    probePath: runner.probePath,
    timeoutMs,
    graceMs: GRACE_MS,
    maxOutputBytes: script.options.maxOutputBytes ?? runner.settings.maxOutputBytes,
    variables: runner.settings.env,
    environment: runner.environment,
    masker: maskerOf(lane.call),
    stop: stop.signal,
    kill: stop.kill,
    onStarted: recorder.start,
    onSample: recorder.sample,
    onUpdate: (data) => lane.journal.update(claim, data),
  });
  return await running.finally(() => recorder.settle());
}

const maskers = new WeakMap<StoreInvocation, Masker>();

/** Looking for secrets in the environment is too dear for each job. */
function maskerOf(call: StoreInvocation): Masker {
  const { runner } = call;
  const masker = maskers.get(call) ?? createMasker(runner.settings, runner.environment);
  maskers.set(call, masker);
  return masker;
}

async function describeJob({ call }: HandlerLane, claimed: ClaimedRow) {
  const { job, claim } = claimed;
  const { db } = call.store;
  return {
    id: job.id,
    name: job.name,
    data: job.data,
    attempt: claim.attempt,
    scheduledFor: job.scheduled_for,
    startedAt: claim.startedAt,
    latenessMs: claim.startedAt - job.run_at,
    lastSuccess: job.repeat === null ? null : await readLastSuccess(call, claimed),
    previouslyCrashed: await hasEarlierTryCrashed(db, claim),
    parentData: job.parent_id === null ? null : await readData(call, job.parent_id),
    children: claimed.hasEndedChildren ? await tellEndedChildren(db, job.id) : null,
  };
}

async function readLastSuccess({ store }: StoreInvocation, { job, claim }: ClaimedRow) {
  const history = await readScriptHistory(store.db, `queue/${job.name}`, claim.runId);
  return history.lastSuccess;
}

async function readData({ store }: StoreInvocation, id: number): Promise<string | null> {
  const text = 'select data from jobs where id = ?';
  const [row] = await queryRaw<{ data: string }>(store.db, text, [id]);
  return row?.data ?? null;
}
