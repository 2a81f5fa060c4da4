import type { ProbeResult } from '../child/probe-contract.ts';
import { describeEnd, type EndFacts } from './describe-end.ts';
import { describeNoFiles } from './describe-not-started.ts';
import { describeWarnings } from './describe-warnings.ts';
import { fieldsOf, type HandlerWords, joinWarnings, readWords } from './handler-end.ts';
import { isDiskFull } from './is-disk-full.ts';
import { keepOutput } from './keep-output.ts';
import { describeError, endNotStarted, measureBySelf, roundMs } from './make-end.ts';
import { findMemoryFailure } from './memory-failure.ts';
import { type Observation, observeRun } from './observe-run.ts';
import { decideOutcome } from './outcome.ts';
import { readProbeResult } from './probe-result.ts';
import { inputOf } from './program-input.ts';
import type { KeptOutput, Measurement, RunEnd } from './run-end.ts';
import {
  closeOutput,
  createRunFiles,
  type OpenOutput,
  type RunFiles,
  runFilesOf,
} from './run-files.ts';
import type { RunRequest } from './run-request.ts';
import type { StartFailure } from './start-process.ts';

/** Runs a script to its end, whatever that is: nothing a script does makes this throw. */
export async function runScript(request: RunRequest): Promise<RunEnd> {
  const files = runFilesOf(request.state, request.runId);
  const startedAt = performance.now();
  const output = openRunFiles(files, request);
  if ('failure' in output) return endNotStarted(output.failure, performance.now() - startedAt);
  try {
    const observed = await observeRun(request, files, output);
    const durationMs = performance.now() - startedAt;
    if ('failure' in observed) return endNotStarted(observed.failure, durationMs);
    return await endRun(request, files, { ...observed, fd: output.fd, durationMs });
  } finally {
    closeOutput(output);
  }
}

function openRunFiles(files: RunFiles, request: RunRequest): OpenOutput | StartFailure {
  try {
    return createRunFiles(files, inputOf(request));
  } catch (error) {
    return { failure: describeNoFiles(error as NodeJS.ErrnoException) };
  }
}

interface Observed extends Observation {
  readonly durationMs: number;
}

async function endRun(
  request: RunRequest,
  files: RunFiles,
  observed: Observed & { readonly fd: number },
): Promise<RunEnd> {
  const result = readProbeResult(files.result, request.masker);
  const { fd, droppedBytes } = observed;
  const { maxOutputBytes: maxBytes, masker } = request;
  const output = await keepOutput({ path: files.output, fd, droppedBytes, maxBytes, masker });
  const words = readWords(request, observed.exit.code, result, fd);
  const facts = collectFacts(request, observed, result, output, words);
  const outcome = decideOutcome(facts, words.ask);
  return {
    ...(result === null ? addCpu(observed) : measureBySelf(result)),
    outcome,
    finishedAt: Date.now(),
    durationMs: roundMs(observed.durationMs),
    exitCode: observed.exit.code,
    signal: observed.exit.signal,
    reason: describeEnd(facts),
    warning: joinWarnings(describeAll(request, observed, result), words.warning),
    // What the script's own `uncaughtException` handler dealt with is no cause of anything.
    error: outcome === 'succeeded' ? null : (result?.error ?? null),
    output,
    ...fieldsOf(words, outcome),
  };
}

function describeAll(
  request: RunRequest,
  observed: Observed,
  result: ProbeResult | null,
): string | null {
  const selfPeakBytes = result?.maxRssBytes ?? null;
  return describeWarnings({
    ...observed,
    isDiskFull: isDiskFull(request.state.output),
    selfPeakBytes,
  });
}

function collectFacts(
  request: RunRequest,
  { exit, termination, sampled, memory, startFailure, durationMs }: Observed,
  result: ProbeResult | null,
  output: KeptOutput,
  words: HandlerWords,
): EndFacts {
  const { options } = request.script;
  return {
    exitCode: exit.code,
    signal: exit.signal,
    termination: termination.cause,
    killedAfterGrace: termination.killed,
    memoryExcess: termination.cause === 'memory' ? (memory?.excess() ?? null) : null,
    startFailure,
    timeoutMs: request.timeoutMs,
    graceMs: request.graceMs,
    durationMs,
    heapLimitBytes: options.memoryBytes ?? null,
    memoryFailure: findMemoryFailure(exit, output.text),
    lastSeenRssBytes: sampled.maxRssBytes,
    errorSentence: describeError(result),
    ownSentence: words.sentence,
  };
}

/** The last sample is older than the end; what the kernel counted lacks children nobody waited for. */
function addCpu({ exit: { cpu }, sampled }: Observation): Measurement {
  if (cpu === null) return sampled;
  return {
    ...sampled,
    userCpuMs: Math.max(cpu.userCpuMs, sampled.userCpuMs ?? 0),
    systemCpuMs: Math.max(cpu.systemCpuMs, sampled.systemCpuMs ?? 0),
    measuredBy: 'sampled',
  };
}
