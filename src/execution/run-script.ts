import { closeSync } from 'node:fs';
import type { ProbeResult } from '../child/probe-contract.ts';
import { describeEnd, describeNoFiles, type EndFacts } from './describe-end.ts';
import { keepOutput } from './keep-output.ts';
import { describeError, endNotStarted, measureBySelf, roundMs } from './make-end.ts';
import { decideOutcome } from './outcome.ts';
import { guardOutput } from './output-guard.ts';
import { readProbeResult } from './probe-result.ts';
import { sampleProcess } from './process-sampler.ts';
import type { KeptOutput, Measurement, RunEnd } from './run-end.ts';
import { createRunFiles, type OpenOutput, type RunFiles, runFilesOf } from './run-files.ts';
import type { RunRequest } from './run-request.ts';
import {
  type Exit,
  type StartedProcess,
  type StartFailure,
  startProcess,
} from './start-process.ts';
import { type Termination, watchLimits } from './terminate.ts';

/** A Node script measures itself; samples only serve for one that is killed. */
const NODE_FIRST_SAMPLE_MS = 50;

/** Runs a script to its end, whatever that is: nothing a script does makes this throw. */
export async function runScript(request: RunRequest): Promise<RunEnd> {
  const files = runFilesOf(request.state, request.runId);
  const startedAt = performance.now();
  const opened = openRunFiles(files);
  if ('failure' in opened) return endNotStarted(opened.failure, performance.now() - startedAt);
  const { appendFd, fd } = opened;
  try {
    const started = await startProcess(request, files, appendFd).finally(() => closeSync(appendFd));
    if ('failure' in started) return endNotStarted(started.failure, performance.now() - startedAt);
    request.onStarted(started.pid);
    const observation = await observeProcess(started, request, fd);
    const durationMs = performance.now() - startedAt;
    return await endRun(request, files, { ...observation, fd, durationMs });
  } finally {
    closeSync(fd);
  }
}

function openRunFiles(files: RunFiles): OpenOutput | StartFailure {
  try {
    return createRunFiles(files);
  } catch (error) {
    return { failure: describeNoFiles(error as NodeJS.ErrnoException) };
  }
}

interface Observation {
  readonly exit: Exit;
  readonly termination: Termination;
  readonly sampled: Measurement;
  readonly droppedBytes: number;
}

async function observeProcess(
  { pid, exited }: StartedProcess,
  request: RunRequest,
  outputFd: number,
): Promise<Observation> {
  const isNode = request.script.launch.kind === 'node';
  const sampler = sampleProcess(pid, isNode ? NODE_FIRST_SAMPLE_MS : undefined);
  const guard = guardOutput(outputFd, pid, request.maxOutputBytes);
  const termination = watchLimits(pid, request);
  const exit = await exited;
  termination.settle();
  guard.stop();
  return { exit, termination, sampled: sampler.stop(), droppedBytes: guard.droppedBytes() };
}

async function endRun(
  request: RunRequest,
  files: RunFiles,
  observed: Observation & { readonly durationMs: number; readonly fd: number },
): Promise<RunEnd> {
  const result = readProbeResult(files.result);
  const { fd, droppedBytes } = observed;
  const maxBytes = request.maxOutputBytes;
  const output = await keepOutput({ path: files.output, fd, droppedBytes, maxBytes });
  const facts = collectFacts(request, observed, result, output);
  const outcome = decideOutcome(facts);
  return {
    ...(result === null ? addCpu(observed) : measureBySelf(result)),
    outcome,
    finishedAt: Date.now(),
    durationMs: roundMs(observed.durationMs),
    exitCode: observed.exit.code,
    signal: observed.exit.signal,
    reason: describeEnd(facts),
    warning: null,
    // What the script's own `uncaughtException` handler dealt with is no cause of anything.
    error: outcome === 'succeeded' ? null : (result?.error ?? null),
    output,
  };
}

function collectFacts(
  request: RunRequest,
  { exit, termination, sampled, durationMs }: Observation & { readonly durationMs: number },
  result: ProbeResult | null,
  output: KeptOutput,
): EndFacts {
  return {
    exitCode: exit.code,
    signal: exit.signal,
    termination: termination.cause,
    killedAfterGrace: termination.killed,
    timeoutMs: request.timeoutMs,
    graceMs: request.graceMs,
    durationMs,
    heapLimitBytes: request.script.options.memoryBytes ?? null,
    reachedHeapLimit: exit.signal === 'SIGABRT' && /heap out of memory/i.test(output.text),
    lastSeenRssBytes: sampled.maxRssBytes,
    errorSentence: describeError(result),
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
