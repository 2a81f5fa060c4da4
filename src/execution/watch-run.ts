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
 * @returns to be called when the run has ended
 */
export function watchRun(pid: number, request: WatchRequest, fd: number): () => Watched {
  const termination = watchLimits(pid, request);
  const stopLooking = lookAt(pid, request, fd, termination);
  const stopWatching = watchForHang(pid, request, termination);
  return () => {
    termination.settle();
    stopWatching();
    return { termination, ...stopLooking() };
  };
}

/** Before that, all but the limits of a run would only be begun and ended again. */
const SHORT_MS = 20;

/**
 * The same for a process that has begun before, and may be through with this run in no time.
 *
 * @param onLasting called once that is not so
 */
export function watchShortRun(
  pid: number,
  request: WatchRequest,
  fd: number,
  onLasting: () => void,
): () => Watched {
  const termination = watchLimits(pid, request);
  let stopLooking: ReturnType<typeof lookAt> | null = null;
  const timer = setTimeout(() => {
    onLasting();
    stopLooking = lookAt(pid, request, fd, termination);
  }, SHORT_MS);
  return () => {
    termination.settle();
    clearTimeout(timer);
    stopLooking ??= lookAt(pid, request, fd, termination);
    return { termination, ...stopLooking() };
  };
}

type Seen = Omit<Watched, 'termination'>;

function lookAt(
  pid: number,
  request: WatchRequest,
  fd: number,
  termination: Termination,
): () => Seen {
  const limits = memoryLimitsOf(request.script.options);
  const memory = limits && watchMemory(limits, () => termination.terminate('memory'));
  const sampler = sampleProcess(planSampling(pid, request, memory));
  const guard = guardOutput(fd, pid, request.maxOutputBytes);
  return () => {
    guard.stop();
    return { sampled: sampler.stop(), memory, droppedBytes: guard.droppedBytes() };
  };
}

/** Only Node hangs before its first line. */
function watchForHang(pid: number, request: WatchRequest, { terminate }: Termination): () => void {
  if (request.script.launch.kind !== 'node') return () => {};
  return watchStart(pid, request.hangAfterMs ?? HANG_AFTER_MS, () => terminate('hung'));
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
