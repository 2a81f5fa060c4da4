import type { ProbeResult, Trace } from '../../child/contract.ts';
import { judgeEnd } from '../result/end.ts';
import { noWords, readNodeWords } from '../result/handler-reply.ts';
import { keepOutput, readHead } from '../result/output.ts';
import { maskResult, readProbeResult } from '../result/report.ts';
import { addCpu, type KeptOutput, type Measurement, measureBySelf, noOutput, type RunEnd } from '../result/result.ts';
import { isDiskFull } from '../result/wording.ts';
import type { RunFiles } from '../run-files.ts';
import type { HandlerRequest } from '../start/process.ts';
import {
  describeEarlyEnd,
  describeFailedStart,
  describeGone,
  describeHungStart,
  type StartFailure,
} from '../start/start-failure.ts';
import { findLeft, type Watched } from '../watch/watch.ts';
import type { ServedRun, WarmChild } from './child.ts';

/** A run in a child, as seen from the runner. */
export interface WarmObservation extends Watched {
  readonly served: ServedRun;
  readonly files: RunFiles;
  readonly durationMs: number;
  /** In a series of runs, only the last one can have printed anything. */
  readonly isLast: boolean;
  /** A further remark about the child; null: none. */
  readonly note: string | null;
}

/** Determines how a run in a warm child ended: only the handler, or the process with it. */
export async function endWarmRun(
  request: HandlerRequest,
  child: WarmChild,
  observed: WarmObservation,
): Promise<RunEnd> {
  const { message, gone } = observed.served;
  const { masker } = request;
  const result = readResult(request, observed);
  const output = await keepWarmOutput(request, child, observed);
  return await judgeEnd({
    ...{ ...observed, request, result, output, pid: child.pid },
    exit: gone?.exit ?? null,
    measured: result === null ? measureFromOutside(child, observed) : measureBySelf(result),
    words: result === null ? noWords : readNodeWords(result, masker),
    left: gone === undefined ? [] : await findLeft(child.pid, []),
    isDiskFull: output !== noOutput && isDiskFull(request.state.output),
    startFailure: null,
    firstFailure: null,
    findRefutation: async () => (await request.scan?.finish(child.files.fd, masker, child.files.end())) ?? null,
    counts: result?.counts,
    isGarbled: gone?.isGarbled === true,
    notes: [
      observed.note,
      message?.stray ? describeStray(message.stray) : null,
      message?.trace ? masker.text(describeTrace(message.trace)) : null,
    ],
  });
}

/** Takes the child's report; if its process ended with the run, the file that the process left. */
function readResult(
  { masker }: HandlerRequest,
  { served: { message, gone }, files }: WarmObservation,
): ProbeResult | null {
  if (message !== undefined) return maskResult(message.end, masker);
  // A killed process writes nothing, so a file would be older than this run.
  return gone.exit.signal === null ? readProbeResult(files.result, masker) : null;
}

async function keepWarmOutput(
  { maxOutputBytes: maxBytes, masker }: HandlerRequest,
  child: WarmChild,
  { files: { output: path }, droppedBytes, isLast }: WarmObservation,
): Promise<KeptOutput> {
  if (!isLast || child.files.end() === 0) return noOutput;
  return await keepOutput({ path, fd: child.files.fd, droppedBytes, maxBytes, masker });
}

/** Words for a leftover of an earlier run that failed after the run's end. */
export function describeStray({
  jobId,
  sentence,
}: {
  readonly jobId: number | null;
  readonly sentence: string;
}): string {
  const what = jobId === null ? 'an error of an earlier run' : `something of an earlier run of job ${jobId}`;
  return `${what} failed after that run had ended (${sentence}), so its process was replaced`;
}

function describeTrace({ kind, what }: Trace): string {
  const left = kind === 'changed' ? `changed ${what}, which later jobs` : `left a ${what}() running, which later jobs`;
  return `it ${left} of its process would have met, so its process was replaced`;
}

/** The kernel's count for the whole life of the process, minus its earlier jobs. */
function measureFromOutside({ usedCpu, isAlone }: WarmChild, { sampled, served }: WarmObservation): Measurement {
  const cpu = served.gone?.exit.cpu ?? null;
  if (isAlone) return addCpu(sampled, cpu);
  const { maxRssBytes } = sampled;
  const measuredBy = cpu === null && maxRssBytes === null ? null : 'sampled';
  if (cpu === null) return { userCpuMs: null, systemCpuMs: null, maxRssBytes, measuredBy };
  return {
    userCpuMs: Math.max(0, cpu.userCpuMs - usedCpu.userCpuMs),
    systemCpuMs: Math.max(0, cpu.systemCpuMs - usedCpu.systemCpuMs),
    ...{ maxRssBytes, measuredBy },
  };
}

/** A run that has not begun: nothing of its handler has happened. */
export interface Unbegun {
  readonly unbegun: StartFailure;
  readonly retryAfterMs: number;
}

/** A host without room usually has some a moment later. */
const RESTART_AFTER_MS = 500;

/** Why a run did not begin; null: it may have. */
export function findUnbegun(
  request: HandlerRequest,
  child: WarmChild,
  { served: { gone }, termination: { cause } }: WarmObservation,
): Unbegun | null {
  if (gone === undefined) return null;
  const { exit, stray, isUnread } = gone;
  if (stray !== null && stray.lastKey !== request.key)
    return { unbegun: { failure: describeStray(stray) }, retryAfterMs: 0 };
  const end = exit.code ?? exit.signal;
  if (child.isReady && isUnread && cause === null) return { unbegun: { failure: describeGone(end) }, retryAfterMs: 0 };
  if (child.isReady || (cause !== null && cause !== 'hung')) return null;
  const output = readHead(child.files.fd);
  const unbegun =
    cause === 'hung'
      ? { failure: describeHungStart(request.hangAfterMs) }
      : (describeFailedStart(output) ?? { failure: describeEarlyEnd(end, output) });
  return { unbegun, retryAfterMs: RESTART_AFTER_MS };
}
