import type { ProbeResult } from '../child/probe-contract.ts';
import { describeEnd, type EndFacts } from './describe-end.ts';
import { describeWarnings } from './describe-warnings.ts';
import { fieldsOf, type HandlerWords, joinWarnings, readNodeWords } from './handler-end.ts';
import type { HandlerRequest } from './handler-request.ts';
import { isDiskFull } from './is-disk-full.ts';
import { keepOutput } from './keep-output.ts';
import { describeError, measureBySelf, noOutput, roundMs } from './make-end.ts';
import { findMemoryFailure } from './memory-failure.ts';
import { decideOutcome } from './outcome.ts';
import { maskResult, readProbeResult } from './probe-result.ts';
import type { KeptOutput, Measurement, RunEnd } from './run-end.ts';
import type { RunFiles } from './run-files.ts';
import type { Exit } from './start-process.ts';
import type { ServedRun, WarmChild } from './warm-child.ts';
import type { Watched } from './watch-run.ts';

/** What was seen of a run in a child that serves many. */
export interface WarmObservation extends Watched {
  readonly served: ServedRun;
  readonly files: RunFiles;
  readonly durationMs: number;
  /** What to say of the child besides. */
  readonly note: string | null;
}

/** Puts together how a run in a warm child ended: the handler alone, or the process with it. */
export async function endWarmRun(
  request: HandlerRequest,
  child: WarmChild,
  observed: WarmObservation,
): Promise<RunEnd> {
  const exit = 'exit' in observed.served ? observed.served.exit : null;
  const result = readResult(request, observed);
  const output = await keepWarmOutput(request, child, observed);
  const words: HandlerWords | null = result && readNodeWords(result, request.masker);
  const facts = collectFacts(request, observed, { exit, result, output, words });
  const outcome = decideOutcome(facts, words?.ask);
  return {
    ...(result === null ? measureFromOutside(child, observed, exit) : measureBySelf(result)),
    outcome,
    finishedAt: Date.now(),
    durationMs: roundMs(observed.durationMs),
    exitCode: exit?.code ?? null,
    signal: exit?.signal ?? null,
    reason: describeEnd(facts),
    warning: describeAll(request, observed, result, output),
    error: outcome === 'succeeded' ? null : (result?.error ?? null),
    output,
    ...(words && fieldsOf(words, outcome)),
  };
}

/** From itself; where its process ended with it, from the file that it has left at its end. */
function readResult(
  { masker }: HandlerRequest,
  { served, files }: WarmObservation,
): ProbeResult | null {
  if ('message' in served) return maskResult(served.message.end, masker);
  // Who is killed writes nothing: what lies there is older than this run.
  return served.exit.signal === null ? readProbeResult(files.result, masker) : null;
}

async function keepWarmOutput(
  { maxOutputBytes: maxBytes, masker }: HandlerRequest,
  child: WarmChild,
  { files: { output: path }, droppedBytes }: WarmObservation,
): Promise<KeptOutput> {
  if (child.files.end() === 0) return noOutput;
  return await keepOutput({ path, fd: child.files.fd, droppedBytes, maxBytes, masker });
}

interface WarmEnd {
  readonly exit: Exit | null;
  readonly result: ProbeResult | null;
  readonly output: KeptOutput;
  readonly words: HandlerWords | null;
}

function collectFacts(
  request: HandlerRequest,
  { termination, memory, sampled, durationMs, served }: WarmObservation,
  { exit, result, output, words }: WarmEnd,
): EndFacts {
  const isFine = exit === null && result?.exitCode === 0 && termination.cause === null;
  return {
    exitCode: exit === null ? (isFine ? 0 : null) : exit.code,
    signal: exit?.signal ?? null,
    termination: termination.cause,
    killedAfterGrace: termination.killed,
    memoryExcess: termination.cause === 'memory' ? (memory?.excess() ?? null) : null,
    startFailure: null,
    timeoutMs: request.timeoutMs,
    graceMs: request.graceMs,
    durationMs,
    heapLimitBytes: request.script.options.memoryBytes ?? null,
    memoryFailure: exit && findMemoryFailure(exit, output.text),
    lastSeenRssBytes: sampled.maxRssBytes,
    errorSentence: describeError(result),
    ownSentence: words?.sentence ?? null,
    isGarbled: 'exit' in served && served.isGarbled,
  };
}

function describeAll(
  request: HandlerRequest,
  { memory, note, served }: WarmObservation,
  result: ProbeResult | null,
  output: KeptOutput,
): string | null {
  const warnings = describeWarnings({
    memory,
    selfPeakBytes: result?.maxRssBytes ?? null,
    isDiskFull: output !== noOutput && isDiskFull(request.state.output),
    leftProcesses: 0,
    firstFailure: null,
    startFailure: null,
  });
  const stray = 'message' in served ? (served.message.stray ?? null) : null;
  return joinWarnings(warnings, note, stray && describeStray(stray.runId, stray.sentence));
}

/** What an earlier run has left behind and that failed after its end. */
export function describeStray(runId: number | string | null, sentence: string): string {
  const what = runId === null ? 'something of an earlier run' : `something of run ${runId}`;
  return `${what} failed after that run had ended (${sentence}), so its process was replaced`;
}

/** What the kernel has counted for the whole life of the process, without its earlier jobs. */
function measureFromOutside(
  { usedCpu }: WarmChild,
  { sampled }: WarmObservation,
  exit: Exit | null,
): Measurement {
  const cpu = exit?.cpu ?? null;
  const { maxRssBytes } = sampled;
  if (cpu === null) {
    const measuredBy = maxRssBytes === null ? null : 'sampled';
    return { userCpuMs: null, systemCpuMs: null, maxRssBytes, measuredBy };
  }
  return {
    userCpuMs: Math.max(0, cpu.userCpuMs - usedCpu.userCpuMs),
    systemCpuMs: Math.max(0, cpu.systemCpuMs - usedCpu.systemCpuMs),
    maxRssBytes,
    measuredBy: 'sampled',
  };
}
