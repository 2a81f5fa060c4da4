import { setTimeout as sleep } from 'node:timers/promises';
import prettyMilliseconds from 'pretty-ms';
import type { JobMessage } from '../child/handler-contract.ts';
import {
  describeEarlyEnd,
  describeFailedStart,
  describeGone,
  describeHungStart,
} from './describe-not-started.ts';
import { describeStray, endWarmRun } from './end-warm-run.ts';
import { joinWarnings } from './handler-end.ts';
import type { HandlerRequest } from './handler-request.ts';
import { endNotStarted } from './make-end.ts';
import { readHead } from './read-head.ts';
import type { RunEnd } from './run-end.ts';
import { type RunFiles, runFilesOf } from './run-files.ts';
import { HANG_AFTER_MS } from './start-watchdog.ts';
import type { ServedRun, WarmChild } from './warm-child.ts';
import type { WarmKeeper } from './warm-keeper.ts';
import { type Watched, watchRun, watchShortRun } from './watch-run.ts';

/** A run that has not begun: nothing of its handler has happened. */
interface Unbegun {
  /** Why, in one sentence. */
  readonly unbegun: string;
  readonly retryAfterMs: number;
}

/** A host that has no room has some a moment later, as a rule. */
const RESTART_AFTER_MS = 500;

/** Runs a handler in a child that serves many. What did not even begin is tried a second time. */
export async function runWarm(keeper: WarmKeeper, request: HandlerRequest): Promise<RunEnd> {
  const startedAt = performance.now();
  const first = await tryWarm(keeper, request, startedAt);
  if (!('unbegun' in first)) return first;
  await sleep(first.retryAfterMs, undefined, { signal: request.stop }).catch(() => {});
  const second = request.stop.aborted ? first : await tryWarm(keeper, request, startedAt);
  if ('unbegun' in second) return endNotStarted(second.unbegun, performance.now() - startedAt);
  return { ...second, warning: joinWarnings(first.unbegun, second.warning) };
}

async function tryWarm(
  keeper: WarmKeeper,
  request: HandlerRequest,
  startedAt: number,
): Promise<RunEnd | Unbegun> {
  const files = runFilesOf(request.state, request.runId);
  const taken = await keeper.take(request);
  if ('failure' in taken) return endNotStarted(taken.failure, performance.now() - startedAt);
  const { child, note } = taken;
  request.onStarted(child.pid);
  const stopWatching = watch(child, request, files);
  const served = await child.serve(messageOf(request, files), request.onUpdate).catch((error) => {
    stopWatching();
    throw error;
  });
  const watched = stopWatching();
  const durationMs = performance.now() - startedAt;
  const unbegun = findUnbegun(request, child, served, watched);
  const end =
    unbegun ?? (await endWarmRun(request, child, { ...watched, served, files, durationMs, note }));
  keeper.giveBack(child, request.runId, served, watched);
  return end;
}

/** One that has just been started may hang before it comes to the job. */
function watch(child: WarmChild, request: HandlerRequest, files: RunFiles): () => Watched {
  const { fd } = child.files;
  if (child.isReady) {
    return watchShortRun(child.pid, request, fd, () => child.files.nameFor(files));
  }
  child.files.nameFor(files);
  return watchRun(child.pid, request, fd);
}

function messageOf({ job, runId, script }: HandlerRequest, files: RunFiles): JobMessage {
  const { result: resultPath, output: outputPath } = files;
  return { job, runId, script: script.name, path: script.path, resultPath, outputPath };
}

function findUnbegun(
  request: HandlerRequest,
  child: WarmChild,
  served: ServedRun,
  { termination: { cause } }: Watched,
): Unbegun | null {
  if ('message' in served) return null;
  const { exit, stray, isUnread } = served;
  if (stray !== null && stray.lastRunId !== request.runId) {
    return { unbegun: describeStray(stray.runId, stray.sentence), retryAfterMs: 0 };
  }
  if (child.isReady && isUnread && cause === null) {
    return { unbegun: describeGone(exit.code ?? exit.signal), retryAfterMs: 0 };
  }
  if (child.isReady || (cause !== null && cause !== 'hung')) return null;
  const output = readHead(child.files.fd);
  const unbegun =
    cause === 'hung'
      ? describeHungStart(prettyMilliseconds(request.hangAfterMs ?? HANG_AFTER_MS))
      : (describeFailedStart(output) ?? describeEarlyEnd(exit.code ?? exit.signal, output));
  return { unbegun, retryAfterMs: RESTART_AFTER_MS };
}
