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
import { describeChildren } from '../../queue/settle/families.ts';
import { isStoreFailure } from '../../store/failures.ts';
import { isFailure } from '../../store/schema.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import type { ClaimedJob, HandledRun, QueueRecorder } from '../record/queue-recorder.ts';
import { createProgressReport } from './run-job.ts';

/** What one executor needs to run the handlers of its jobs. */
export interface HandlerExecutor {
  readonly call: StoreInvocation;
  readonly recorder: QueueRecorder;
  readonly runner: HandlerRunner;
}

/** Among which other runs this one is. */
interface Serving {
  /** Whether all that this executor has run before is in the log. */
  readonly isSettled: boolean;
  /** Told once the run has lasted a moment. */
  readonly onLasting?: () => Promise<void>;
}

/** Runs a claimed job's handler once; whatever it does is a value. */
export async function runHandler(
  executor: HandlerExecutor,
  claimed: ClaimedJob,
  serving: Serving = { isSettled: true },
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
  const running = execute(executor, ran, handler, { ...serving, job: prepared.job });
  const end = await running.catch((error) => endDefect(executor, error));
  return { ...ran, end: releaseIfEnded(executor.call, end), isRetryable: true };
}

/** One job must not take the worker with it, nor the jobs of its other executors. */
function endDefect({ runner }: HandlerExecutor, error: unknown): RunEnd {
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
type DescribedJob = Parameters<HandlerRunner['run']>[0]['job'];

async function prepare(
  { call }: HandlerExecutor,
  { job, attempt }: ClaimedJob,
  { refusals }: Script,
  startedAt: number,
): Promise<{ readonly job: DescribedJob } | { readonly refusal: string }> {
  if (refusals.length > 0) return { refusal: refusals.join('\n') };
  const { store } = call;
  const children = job.has_unreported_children ? await describeChildren(store, job.id) : null;
  if (children !== null && 'problem' in children) return { refusal: children.problem };
  const [parent] = job.parent_id === null ? [] : await store.jobs.byId([job.parent_id]);
  return {
    job: {
      id: job.id,
      name: job.name,
      data: job.data,
      attempt,
      scheduledFor: job.scheduled_for,
      startedAt,
      latenessMs: startedAt - job.run_at,
      lastSuccess: job.repeat === null ? null : await readLastSuccess(call, job.name),
      previouslyCrashed: attempt > 1 && (await store.runs.hasTryCrashed(job.id)),
      parentData: parent?.data ?? null,
      children: children?.json ?? null,
    },
  };
}

async function readLastSuccess({ store }: StoreInvocation, name: string): Promise<number | null> {
  return (await store.runs.history(`queue/${name}`)).lastSuccess;
}

async function execute(
  executor: HandlerExecutor,
  { claimed, startedAt }: Pick<HandledRun, 'claimed' | 'startedAt'>,
  script: Script,
  { job, isSettled, onLasting }: Serving & { readonly job: DescribedJob },
): Promise<RunEnd> {
  const { recorder, call } = executor;
  const { runner, stop, events } = call;
  const { claim, timeoutMs } = claimed;
  const progress = createProgressReport(
    async (seen) => {
      await onLasting?.();
      await recorder.recordProgress(claimed, startedAt, seen);
    },
    (error) =>
      events.emit('warning', `the process of ${script.name} could not be recorded: ${error}`),
  );
  const running = executor.runner.run({
    key: claim.token,
    script,
    job,
    isSettled,
    root: runner.root,
    state: runner.state,
    probePath: runner.probePath,
    timeoutMs,
    graceMs: GRACE_MS,
    maxOutputBytes: script.options.maxOutputBytes ?? runner.settings.maxOutputBytes,
    variables: runner.settings.env,
    environment: runner.environment,
    masker: maskerOf(call),
    stop: stop.signal,
    kill: stop.kill,
    onStarted: progress.start,
    onSample: progress.sample,
    onUpdate: (data) => recorder.update(claim, data),
  });
  return await running.finally(() => progress.settle());
}

const maskers = new WeakMap<StoreInvocation, Masker>();

/** Looking for secrets in the environment is too dear for each job. */
function maskerOf(call: StoreInvocation): Masker {
  const { runner } = call;
  const masker = maskers.get(call) ?? createMasker(runner.settings, runner.environment);
  maskers.set(call, masker);
  return masker;
}
