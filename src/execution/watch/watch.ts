import { constants, readFileSync, readlinkSync } from 'node:fs';
import { SIGN_OF_LIFE_FD } from '../../child/contract.ts';
import type { ScriptOptions } from '../../settings/settings.ts';
import { readSharedRss } from '../../system/process/memory.ts';
import { listGroup, listTree, readProgress, readUsage, type TreeUsage } from '../../system/process/tree.ts';
import { type Measurement, unmeasured } from '../result/result.ts';
import type { RunRequest } from '../start/request.ts';
import { guardOutput } from './output-guard.ts';
import { type Termination, watchLimits } from './terminate.ts';

/** A process as seen during a run. */
export interface Watched {
  readonly termination: Termination;
  readonly sampled: Measurement;
  /** Null: it has no limit of resident memory. */
  readonly memory: MemoryWatch | null;
  readonly droppedBytes: number;
}

type WatchRequest = Pick<
  RunRequest,
  'script' | 'timeoutMs' | 'graceMs' | 'maxOutputBytes' | 'stop' | 'kill' | 'onSample' | 'hangAfterMs' | 'scan'
>;

/**
 * Watches a process during a run: its limits, its resources, the size of its output.
 *
 * @param fd descriptor of the output file, for reading and writing
 * @returns a function to call when the run has ended
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

/** For a shorter run, everything but its limits would only be begun and ended again. */
const SHORT_MS = 20;

/**
 * Like `watchRun`, for a process that has begun before and may finish these runs in no time.
 *
 * @param onLasting called once the runs take longer; it returns the run that lasts
 */
export function watchShortRuns(
  pid: number,
  requests: readonly [WatchRequest, ...WatchRequest[]],
  fd: number,
  onLasting: () => WatchRequest,
): () => Watched {
  let [request] = requests;
  let termination = watchLimits(pid, request);
  let stopLooking: ReturnType<typeof lookAt> | null = null;
  const timer = setTimeout(() => {
    const lasting = onLasting();
    if (lasting !== request && termination.cause === null) {
      termination.settle();
      request = lasting;
      termination = watchLimits(pid, request);
    }
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

function lookAt(pid: number, request: WatchRequest, fd: number, termination: Termination): () => Seen {
  const limits = memoryLimitsOf(request.script.options);
  const memory = limits && watchMemory(limits, () => termination.terminate('memory'));
  const sampler = sampleProcess(planSampling(pid, request, memory));
  const guard = guardOutput(fd, pid, request.maxOutputBytes, request.scan);
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
    // Only a limit justifies a look at all processes of the machine.
    listMembers: () => (memory === null ? listTree(pid) : listGroup(pid)),
    firstDelayMs: isNode ? NODE_FIRST_SAMPLE_MS : FIRST_SAMPLE_MS,
    longestDelayMs: memory === null ? LONGEST_GAP_MS : LONGEST_GAP_WITH_LIMIT_MS,
    onSample: ({ usage, pids, peakRssBytes }) => {
      memory?.look(usage, pids);
      request.onSample?.(peakRssBytes);
    },
  };
}

/** Node hangs for ever if it gets some of the threads that it starts with, but not all. */
export const HANG_AFTER_MS = 30_000;
const LOOKS = 30;

/**
 * Calls `onHung` when a Node script has neither reached the probe nor made any progress for `hangAfterMs`. The time is
 * counted in looks, not by the clock: while the runner itself stands still, nothing counts.
 */
function watchStart(pid: number, hangAfterMs: number, onHung: () => void): () => void {
  let looks = 0;
  let before: string | null = null;
  const look = (): void => {
    const now = isStarting(pid) ? readProgress(pid) : null;
    looks = now === before ? looks + 1 : 0;
    before = now;
    if (now !== null && looks < LOOKS) return;
    clearInterval(timer);
    if (now !== null) onHung();
  };
  const timer = setInterval(look, hangAfterMs / LOOKS);
  return () => clearInterval(timer);
}

/** Without `/proc`, or for a process of another user, nothing is known: it counts as started. */
function isStarting(pid: number): boolean {
  try {
    const [output, sign] = [1, SIGN_OF_LIFE_FD].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    return output === sign && isForBoth(pid, SIGN_OF_LIFE_FD);
  } catch {
    return false;
  }
}

/**
 * Whether the descriptor is open for reading and writing. A script that opens `/dev/stdout` at the same number lacks
 * that.
 */
function isForBoth(pid: number, fd: number): boolean {
  const info = readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'latin1');
  const flags = Number.parseInt(/^flags:\s+([0-7]+)$/m.exec(info)?.[1] ?? '', 8);
  return (flags & ACCESS_MODE) === constants.O_RDWR;
}

const ACCESS_MODE = constants.O_RDONLY | constants.O_WRONLY | constants.O_RDWR;

interface ProcessSampler {
  /** Ends the sampling. Returns what was measured; values that were never seen are null. */
  stop(): Measurement;
}

/** Which processes to sample, and how often. */
interface Sampling {
  readonly listMembers: () => readonly number[];
  /** The delay between the first samples; it grows with each further one. */
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
  readonly onSample: (sample: Sample) => void;
}

interface Sample {
  readonly usage: TreeUsage;
  readonly pids: readonly number[];
  /** The highest memory of this and all earlier samples. */
  readonly peakRssBytes: number;
}

/** A script of a few milliseconds must be caught; one of an hour need not be watched that closely. */
const CLOSE_DELAY_MS = 100;
const CLOSE_UNTIL_MS = 10_000;
/** With many processes, a sample takes 2 % of the time until the next one. */
const COST_FACTOR = 50;

/** Samples a run's processes from `/proc`. */
function sampleProcess(sampling: Sampling): ProcessSampler {
  const startedAt = performance.now();
  let seen: TreeUsage | null = null;
  let peakRssBytes = 0;
  let wasSeenLoaded = false;
  const sample = (): void => {
    const pids = sampling.listMembers();
    const usage = readUsage(pids);
    if (usage === null) return;
    wasSeenLoaded ||= usage.isLoaded;
    seen = mostCpu(seen, usage);
    peakRssBytes = Math.max(peakRssBytes, usage.rssBytes, usage.peakRssBytes);
    sampling.onSample({ usage, pids, peakRssBytes });
  };
  const next = (): void => {
    const before = performance.now();
    sample();
    delayMs = nextDelayMs(sampling, delayMs, before - startedAt, performance.now() - before);
    timer = setTimeout(next, delayMs);
  };
  let delayMs = sampling.firstDelayMs;
  if (delayMs < CLOSE_DELAY_MS / 10) sample();
  let timer = setTimeout(next, delayMs);
  return {
    stop: () => {
      clearTimeout(timer);
      return toMeasurement(seen, wasSeenLoaded ? peakRssBytes : null);
    },
  };
}

function nextDelayMs({ longestDelayMs }: Sampling, delayMs: number, elapsedMs: number, costMs: number): number {
  if (elapsedMs > CLOSE_UNTIL_MS) return longestDelayMs;
  if (delayMs < CLOSE_DELAY_MS) return Math.min(delayMs * 2, CLOSE_DELAY_MS);
  return Math.min(Math.max(CLOSE_DELAY_MS, costMs * COST_FACTOR), longestDelayMs);
}

/** A descendant that ended without being waited for takes its CPU time out of the sum. */
function mostCpu(before: TreeUsage | null, now: TreeUsage): TreeUsage {
  if (before === null) return now;
  return {
    ...now,
    userCpuMs: Math.max(before.userCpuMs, now.userCpuMs),
    systemCpuMs: Math.max(before.systemCpuMs, now.systemCpuMs),
  };
}

function toMeasurement(seen: TreeUsage | null, peakRssBytes: number | null): Measurement {
  if (seen === null) return unmeasured;
  const { userCpuMs, systemCpuMs } = seen;
  return { userCpuMs, systemCpuMs, maxRssBytes: peakRssBytes, measuredBy: 'sampled' };
}

/** How much resident memory the processes of a run may use together; null: no limit. */
export interface MemoryLimits {
  readonly warnBytes: number | null;
  readonly maxBytes: number | null;
  readonly sustainMs: number;
}

/** The excess of memory for which a run is ended. */
export interface MemoryExcess {
  readonly usedBytes: number;
  readonly forMs: number;
  readonly limitBytes: number;
}

const DEFAULT_SUSTAIN_MS = 5_000;

/** Null: no limit is set, so nothing has to be watched. */
function memoryLimitsOf(options: ScriptOptions): MemoryLimits | null {
  const { warnRssBytes, maxRssBytes, rssSustainMs } = options;
  if (warnRssBytes === undefined && maxRssBytes === undefined) return null;
  return {
    warnBytes: warnRssBytes ?? null,
    maxBytes: maxRssBytes ?? null,
    sustainMs: rssSustainMs ?? DEFAULT_SUSTAIN_MS,
  };
}

export interface MemoryWatch {
  readonly limits: MemoryLimits;
  /** Takes a sample of the run's processes. */
  look(usage: TreeUsage, pids: readonly number[]): void;
  /** The highest use seen; null: nothing was seen. */
  peakBytes(): number | null;
  /** Set once the run has been above its limit for long enough. */
  excess(): MemoryExcess | null;
}

/**
 * @param onExcess called once, when the memory has been above its limit for the sustain time
 * @param now a monotonic clock
 */
export function watchMemory(
  limits: MemoryLimits,
  onExcess: () => void,
  now: () => number = () => performance.now(),
): MemoryWatch {
  const leastBytes = Math.min(limits.warnBytes ?? Infinity, limits.maxBytes ?? Infinity);
  let peakBytes: number | null = null;
  let aboveSince: number | null = null;
  let excess: MemoryExcess | null = null;
  const judge = (usedBytes: number): void => {
    const { maxBytes: limitBytes, sustainMs } = limits;
    if (limitBytes === null) return;
    aboveSince = usedBytes > limitBytes ? (aboveSince ?? now()) : null;
    const forMs = aboveSince === null ? null : now() - aboveSince;
    if (excess !== null || forMs === null || forMs < sustainMs) return;
    excess = { usedBytes, forMs, limitBytes };
    onExcess();
  };
  return {
    limits,
    look: (usage, pids) => {
      const usedBytes = weigh(usage.rssBytes, pids, leastBytes);
      peakBytes = Math.max(peakBytes ?? 0, usedBytes, usage.peakRssBytes);
      judge(usedBytes);
    },
    peakBytes: () => peakBytes,
    excess: () => excess,
  };
}

/**
 * The plain sum counts shared pages several times, so it is never too low. Only above a limit is an exact look worth
 * its price.
 */
function weigh(rssBytes: number, pids: readonly number[], leastBytes: number): number {
  if (rssBytes <= leastBytes || pids.length === 1) return rssBytes;
  return readSharedRss(pids) ?? rssBytes;
}
