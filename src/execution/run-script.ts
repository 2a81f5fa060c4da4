import { closeSync } from 'node:fs';
import type { ProbeResult } from '../child/probe-contract.ts';
import { describeEnd, type EndFacts } from './describe-end.ts';
import { keepOutput } from './keep-output.ts';
import { decideOutcome } from './outcome.ts';
import { guardOutput } from './output-guard.ts';
import { readProbeResult } from './probe-result.ts';
import { sampleProcess } from './process-sampler.ts';
import type { KeptOutput, Measurement, RunEnd } from './run-end.ts';
import { createRunFiles, type RunFiles, runFilesOf } from './run-files.ts';
import type { RunRequest } from './run-request.ts';
import { type Exit, type StartedProcess, startProcess } from './start-process.ts';
import { type Termination, watchLimits } from './terminate.ts';

/** A Node script measures itself; samples only serve for one that is killed. */
const NODE_FIRST_SAMPLE_MS = 50;

const unmeasured: Measurement = {
  userCpuMs: null,
  systemCpuMs: null,
  maxRssBytes: null,
  measuredBy: null,
};

/** Runs a script to its end, whatever that is: nothing a script does makes this throw. */
export async function runScript(request: RunRequest): Promise<RunEnd> {
  const files = runFilesOf(request.state, request.runId);
  const startedAt = performance.now();
  const outputFd = createRunFiles(files);
  const started = await startProcess(request, files, outputFd).finally(() => closeSync(outputFd));
  if ('failure' in started) return endNotStarted(started.failure, performance.now() - startedAt);
  request.onStarted(started.pid);
  const observation = await observeProcess(started, request, files);
  return endRun(request, files, { ...observation, durationMs: performance.now() - startedAt });
}

/** A run that ended before it began: refused, or without an interpreter. */
export function endNotStarted(reason: string, durationMs: number): RunEnd {
  return {
    ...unmeasured,
    outcome: 'not-started',
    finishedAt: Date.now(),
    durationMs: roundMs(durationMs),
    exitCode: null,
    signal: null,
    reason,
    error: null,
    output: { text: '', bytes: 0, droppedBytes: 0, file: null, fileBytes: null },
  };
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
  files: RunFiles,
): Promise<Observation> {
  const isNode = request.script.launch.kind === 'node';
  const sampler = sampleProcess(pid, isNode ? NODE_FIRST_SAMPLE_MS : undefined);
  const guard = guardOutput(files.output, pid, request.maxOutputBytes);
  const termination = watchLimits(pid, request);
  const exit = await exited;
  termination.settle();
  guard.stop();
  return { exit, termination, sampled: sampler.stop(), droppedBytes: guard.droppedBytes() };
}

async function endRun(
  request: RunRequest,
  files: RunFiles,
  observed: Observation & { readonly durationMs: number },
): Promise<RunEnd> {
  const result = readProbeResult(files.result);
  const output = await keepOutput(files.output, observed.droppedBytes, request.maxOutputBytes);
  const facts = collectFacts(request, observed, result, output);
  return {
    ...(result === null ? observed.sampled : measureBySelf(result)),
    outcome: decideOutcome(facts),
    finishedAt: Date.now(),
    durationMs: roundMs(observed.durationMs),
    exitCode: observed.exit.code,
    signal: observed.exit.signal,
    reason: describeEnd(facts),
    error: result?.error ?? null,
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

function describeError(result: ProbeResult | null): string | null {
  if (!result?.error) return null;
  const { name, message } = result.error;
  const [firstLine = ''] = message.split('\n');
  return firstLine === '' ? name : `${name}: ${firstLine}`;
}

function measureBySelf(result: ProbeResult): Measurement {
  const { userCpuMs, systemCpuMs, maxRssBytes } = result;
  return { userCpuMs, systemCpuMs, maxRssBytes, measuredBy: 'self' };
}

const roundMs = (ms: number): number => Math.round(ms * 1000) / 1000;
