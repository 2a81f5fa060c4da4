import { ftruncateSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import prettyMilliseconds from 'pretty-ms';
import { listGroup } from '../process/process-group.ts';
import { listTree } from '../process/process-tree.ts';
import { describeFailedStart, describeHungStart } from './describe-not-started.ts';
import { countLeft } from './left-processes.ts';
import { type MemoryWatch, memoryLimitsOf, watchMemory } from './memory-limits.ts';
import { guardOutput } from './output-guard.ts';
import { type Sampling, sampleProcess } from './process-sampler.ts';
import type { Measurement } from './run-end.ts';
import type { OpenOutput, RunFiles } from './run-files.ts';
import type { RunRequest } from './run-request.ts';
import {
  type Exit,
  type StartedProcess,
  type StartFailure,
  startProcess,
} from './start-process.ts';
import { HANG_AFTER_MS, watchStart } from './start-watchdog.ts';
import { type Termination, watchLimits } from './terminate.ts';

/** What was seen of a run from outside. */
export interface Observation {
  readonly exit: Exit;
  readonly termination: Termination;
  readonly sampled: Measurement;
  /** Null: it has no limit of resident memory. */
  readonly memory: MemoryWatch | null;
  readonly droppedBytes: number;
  readonly leftProcesses: number;
  /** Why it never came to its first line; null: it may have. */
  readonly startFailure: string | null;
  /** Why it was started a second time. */
  readonly firstFailure: string | null;
}

const RESTART_AFTER_MS = 500;

/**
 * Starts a run's process and waits for its end. A Node that fails before the script's first line is
 * started a second time: nothing of the script has happened yet, and hosts are full only for moments.
 */
export async function observeRun(
  request: RunRequest,
  files: RunFiles,
  output: OpenOutput,
): Promise<Observation | StartFailure> {
  const first = await observeStart(request, files, output);
  if ('failure' in first || first.startFailure === null) return first;
  await sleep(RESTART_AFTER_MS, undefined, { signal: request.stop }).catch(() => {});
  if (request.stop.aborted) return first;
  ftruncateSync(output.fd);
  const second = await observeStart(request, files, output);
  return 'failure' in second ? second : { ...second, firstFailure: first.startFailure };
}

async function observeStart(
  request: RunRequest,
  files: RunFiles,
  output: OpenOutput,
): Promise<Observation | StartFailure> {
  const started = await startProcess(request, files, output);
  if ('failure' in started) return started;
  request.onStarted(started.pid);
  return await observeProcess(started, request, output.fd);
}

async function observeProcess(
  { pid, exited }: StartedProcess,
  request: RunRequest,
  fd: number,
): Promise<Observation> {
  const termination = watchLimits(pid, request);
  const limits = memoryLimitsOf(request.script.options);
  const memory = limits && watchMemory(limits, () => termination.terminate('memory'));
  const sampler = sampleProcess(planSampling(pid, request, memory));
  const guard = guardOutput(fd, pid, request.maxOutputBytes);
  const hangAfterMs = request.hangAfterMs ?? HANG_AFTER_MS;
  const stopWatching = isNode(request)
    ? watchStart(pid, hangAfterMs, () => termination.terminate('hung'))
    : () => {};
  const exit = await exited;
  termination.settle();
  guard.stop();
  stopWatching();
  return {
    exit,
    termination,
    sampled: sampler.stop(),
    memory,
    droppedBytes: guard.droppedBytes(),
    leftProcesses: await countLeft(pid),
    startFailure: describeFailure(request, termination, exit, fd),
    firstFailure: null,
  };
}

const isNode = ({ script }: RunRequest): boolean => script.launch.kind === 'node';

/** A Node script measures itself; samples only serve for one that is killed. */
const NODE_FIRST_SAMPLE_MS = 50;
const FIRST_SAMPLE_MS = 1;
const LONGEST_GAP_MS = 1_000;
const LONGEST_GAP_WITH_LIMIT_MS = 500;

function planSampling(pid: number, request: RunRequest, memory: MemoryWatch | null): Sampling {
  return {
    // Only a limit is worth a look at all the machine's processes.
    listMembers: () => (memory === null ? listTree(pid) : listGroup(pid)),
    firstDelayMs: isNode(request) ? NODE_FIRST_SAMPLE_MS : FIRST_SAMPLE_MS,
    longestDelayMs: memory === null ? LONGEST_GAP_MS : LONGEST_GAP_WITH_LIMIT_MS,
    onSample: ({ usage, pids, peakRssBytes }) => {
      memory?.look(usage, pids);
      request.onSample?.(peakRssBytes);
    },
  };
}

function describeFailure(
  request: RunRequest,
  { cause }: Termination,
  { signal }: Exit,
  fd: number,
): string | null {
  if (cause === 'hung') {
    return describeHungStart(prettyMilliseconds(request.hangAfterMs ?? HANG_AFTER_MS));
  }
  const isOwnEnd = signal === 'SIGABRT' || signal === 'SIGTRAP';
  return isNode(request) && cause === null && isOwnEnd ? describeFailedStart(readHead(fd)) : null;
}

const HEAD_BYTES = 8 * 1024;

function readHead(fd: number): string {
  const head = Buffer.alloc(HEAD_BYTES);
  return head.toString('latin1', 0, readSync(fd, head, 0, HEAD_BYTES, 0));
}
