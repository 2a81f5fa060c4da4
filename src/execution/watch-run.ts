import { listGroup } from '../process/process-group.ts';
import { listTree } from '../process/process-tree.ts';
import { type MemoryWatch, memoryLimitsOf, watchMemory } from './memory-limits.ts';
import { guardOutput } from './output-guard.ts';
import { type Sampling, sampleProcess } from './process-sampler.ts';
import type { Measurement } from './run-end.ts';
import type { RunRequest } from './run-request.ts';
import { HANG_AFTER_MS, watchStart } from './start-watchdog.ts';
import { type Termination, watchLimits } from './terminate.ts';

/** What was seen of a process while a run was in it. */
export interface Watched {
  readonly termination: Termination;
  readonly sampled: Measurement;
  /** Null: it has no limit of resident memory. */
  readonly memory: MemoryWatch | null;
  readonly droppedBytes: number;
}

type WatchRequest = Pick<
  RunRequest,
  | 'script'
  | 'timeoutMs'
  | 'graceMs'
  | 'maxOutputBytes'
  | 'stop'
  | 'kill'
  | 'onSample'
  | 'hangAfterMs'
>;

/**
 * Looks after a process while a run is in it: its limits, what it uses, the size of its output.
 *
 * @param fd the output file's, for reading and writing
 * @param isStarting whether it may hang before its first line, as Node can
 * @returns to be called when the run has ended
 */
export function watchRun(
  pid: number,
  request: WatchRequest,
  fd: number,
  isStarting: boolean,
): () => Watched {
  const termination = watchLimits(pid, request);
  const limits = memoryLimitsOf(request.script.options);
  const memory = limits && watchMemory(limits, () => termination.terminate('memory'));
  const sampler = sampleProcess(planSampling(pid, request, memory));
  const guard = guardOutput(fd, pid, request.maxOutputBytes);
  const hangAfterMs = request.hangAfterMs ?? HANG_AFTER_MS;
  const stopWatching = isStarting
    ? watchStart(pid, hangAfterMs, () => termination.terminate('hung'))
    : () => {};
  return () => {
    termination.settle();
    guard.stop();
    stopWatching();
    return { termination, sampled: sampler.stop(), memory, droppedBytes: guard.droppedBytes() };
  };
}

/** A Node script measures itself; samples only serve for one that is killed. */
const NODE_FIRST_SAMPLE_MS = 50;
const FIRST_SAMPLE_MS = 1;
const LONGEST_GAP_MS = 1_000;
const LONGEST_GAP_WITH_LIMIT_MS = 500;

function planSampling(pid: number, request: WatchRequest, memory: MemoryWatch | null): Sampling {
  const isNode = request.script.launch.kind === 'node';
  return {
    // Only a limit is worth a look at all the machine's processes.
    listMembers: () => (memory === null ? listTree(pid) : listGroup(pid)),
    firstDelayMs: isNode ? NODE_FIRST_SAMPLE_MS : FIRST_SAMPLE_MS,
    longestDelayMs: memory === null ? LONGEST_GAP_MS : LONGEST_GAP_WITH_LIMIT_MS,
    onSample: ({ usage, pids, peakRssBytes }) => {
      memory?.look(usage, pids);
      request.onSample?.(peakRssBytes);
    },
  };
}
