import { constants, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { SIGN_OF_LIFE_FD } from '../../child/contract.ts';
import type { ScriptOptions } from '../../settings/settings.ts';
import { errorCode } from '../../system/base/errors.ts';
import { readSharedRss } from '../../system/process/memory.ts';
import {
  listGroup,
  listStartedWith,
  listTree,
  readProcessName,
  readProgress,
  readUsage,
  signalGroup,
  type TreeUsage,
} from '../../system/process/tree.ts';
import { guardOutput } from '../result/output.ts';
import { type Measurement, unmeasured } from '../result/result.ts';
import type { RunRequest } from '../start/process.ts';
import { HANG_AFTER_MS } from '../start/start-failure.ts';

/** A process as seen during a run. */
export interface Watched {
  readonly termination: Termination;
  readonly sampled: Measurement;
  /** Null: it has no limit of resident memory. */
  readonly memory: MemoryWatch | null;
  readonly droppedBytes: number;
}

/**
 * Watches a process during a run: its limits, its resources, the size of its output.
 *
 * @param fd descriptor of the output file, for reading and writing
 * @returns a function to call when the run has ended
 */
export function watchRun(pid: number, request: RunRequest, fd: number): () => Watched {
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
  requests: readonly [RunRequest, ...RunRequest[]],
  fd: number,
  onLasting: () => RunRequest,
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

function lookAt(
  pid: number,
  request: RunRequest,
  fd: number,
  termination: Termination,
): () => Omit<Watched, 'termination'> {
  const limits = memoryLimitsOf(request.script.options);
  const memory = limits && watchMemory(limits, () => termination.terminate('memory'));
  const stopSampling = sampleProcess(pid, request, memory);
  const stopGuarding = guardOutput(fd, pid, request.maxOutputBytes, request.scan);
  return () => {
    const droppedBytes = stopGuarding();
    return { sampled: stopSampling(), memory, droppedBytes };
  };
}

const LOOKS = 30;

/**
 * Ends a Node script that has neither reached the probe nor made any progress for `hangAfterMs`. The time is counted in
 * looks, not by the clock: while the runner itself stands still, nothing counts.
 */
function watchForHang(pid: number, { script, hangAfterMs }: RunRequest, { terminate }: Termination): () => void {
  if (script.launch.kind !== 'node') return () => {};
  let looks = 0;
  let before: string | null = null;
  const look = (): void => {
    const now = isStarting(pid) ? readProgress(pid) : null;
    looks = now === before ? looks + 1 : 0;
    before = now;
    if (now !== null && looks < LOOKS) return;
    clearInterval(timer);
    if (now !== null) terminate('hung');
  };
  const timer = setInterval(look, (hangAfterMs ?? HANG_AFTER_MS) / LOOKS);
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

/** A Node script measures itself; samples only serve for one that is killed. */
const NODE_FIRST_SAMPLE_MS = 50;
const FIRST_SAMPLE_MS = 1;
const LONGEST_GAP_MS = 1_000;
const LONGEST_GAP_WITH_LIMIT_MS = 500;

/** A script of a few milliseconds must be caught; one of an hour need not be watched that closely. */
const CLOSE_DELAY_MS = 100;
const CLOSE_UNTIL_MS = 10_000;
/** With many processes, a sample takes 2% of the time until the next one. */
const COST_FACTOR = 50;

/**
 * Samples a run's processes from `/proc`.
 *
 * @returns a function that ends the sampling; it returns the measurement, with null for values that were never seen
 */
function sampleProcess(pid: number, request: RunRequest, memory: MemoryWatch | null): () => Measurement {
  const startedAt = performance.now();
  const longestDelayMs = memory === null ? LONGEST_GAP_MS : LONGEST_GAP_WITH_LIMIT_MS;
  let seen: TreeUsage | null = null;
  let peakRssBytes = 0;
  let wasSeenLoaded = false;
  const sample = (): void => {
    // Only a limit justifies a look at all processes of the machine.
    const pids = memory === null ? listTree(pid) : listGroup(pid);
    const usage = readUsage(pids);
    if (usage === null) return;
    wasSeenLoaded ||= usage.isLoaded;
    seen = mostCpu(seen, usage);
    peakRssBytes = Math.max(peakRssBytes, usage.rssBytes, usage.peakRssBytes);
    memory?.look(usage, pids);
    request.onSample?.(peakRssBytes);
  };
  const next = (): void => {
    const before = performance.now();
    sample();
    delayMs = nextDelayMs(longestDelayMs, delayMs, before - startedAt, performance.now() - before);
    timer = setTimeout(next, delayMs);
  };
  let delayMs = request.script.launch.kind === 'node' ? NODE_FIRST_SAMPLE_MS : FIRST_SAMPLE_MS;
  if (delayMs < CLOSE_DELAY_MS / 10) sample();
  let timer = setTimeout(next, delayMs);
  return () => {
    clearTimeout(timer);
    if (seen === null) return unmeasured;
    const { userCpuMs, systemCpuMs } = seen;
    return { userCpuMs, systemCpuMs, maxRssBytes: wasSeenLoaded ? peakRssBytes : null, measuredBy: 'sampled' };
  };
}

function nextDelayMs(longestDelayMs: number, delayMs: number, elapsedMs: number, costMs: number): number {
  if (elapsedMs > CLOSE_UNTIL_MS) return longestDelayMs;
  if (delayMs < CLOSE_DELAY_MS) return Math.min(delayMs * 2, CLOSE_DELAY_MS);
  return Math.min(Math.max(CLOSE_DELAY_MS, costMs * COST_FACTOR), longestDelayMs);
}

/** A descendant that ended without being waited for takes its CPU time out of the sum. */
function mostCpu(before: TreeUsage | null, now: TreeUsage): TreeUsage {
  if (before === null) return now;
  const userCpuMs = Math.max(before.userCpuMs, now.userCpuMs);
  return { ...now, userCpuMs, systemCpuMs: Math.max(before.systemCpuMs, now.systemCpuMs) };
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

/** Time that a script has between SIGTERM and SIGKILL. */
export const GRACE_MS = 10_000;

/** Why a run is ended before it ends by itself. `stop`: its runner stops; `asked`: somebody wants the end of this run. */
export type Cause = 'timeout' | 'stop' | 'asked' | 'memory' | 'hung';

export interface Termination {
  /** Null while nothing has asked for its end. */
  readonly cause: Cause | null;
  /** The person who asked for its end; null: it has another cause. */
  readonly stoppedBy: string | null;
  /** Whether SIGTERM did not suffice. */
  readonly killed: boolean;
  /** Only the first cause counts, and none once it is settled. */
  terminate(cause: Cause, stoppedBy?: string): void;
  /** Call it when the run's process has ended. */
  settle(): void;
}

/**
 * Sends SIGTERM to the whole group at the time limit, at a stop, or for another cause; SIGKILL after the grace period.
 * A hanging process cannot react, so it gets SIGKILL at once.
 */
function watchLimits(pid: number, limits: RunRequest): Termination {
  const state = { cause: null as Cause | null, stoppedBy: null as string | null, killed: false, terminate, settle };
  let isSettled = false;
  let asked: NodeJS.Immediate | undefined;
  let graceTimer: NodeJS.Timeout | undefined;
  const timeoutTimer = setTimeout(() => terminate('timeout'), limits.timeoutMs);
  const onStop = (): void => terminate('stop');
  if (limits.stop.aborted) onStop();
  else limits.stop.addEventListener('abort', onStop, { once: true });
  const onKill = (): void => signalGroup(pid, 'SIGKILL');
  limits.kill?.addEventListener('abort', onKill, { once: true });
  limits.onWatched?.((by) => terminate('asked', by));

  // A runner that stood still (SIGSTOP, a locked log) sees its timers first, and only then that the process ended
  // before them. Such an end was not caused by the runner.
  function terminate(cause: Cause, stoppedBy: string | null = null): void {
    if (!isSettled) asked ??= setImmediate(() => begin(cause, stoppedBy));
  }
  function begin(cause: Cause, stoppedBy: string | null): void {
    if (!isThere(pid)) return;
    Object.assign(state, { cause, stoppedBy });
    signalGroup(pid, cause === 'hung' ? 'SIGKILL' : 'SIGTERM');
    graceTimer = setTimeout(() => {
      state.killed = true;
      signalGroup(pid, 'SIGKILL');
    }, limits.graceMs);
  }
  function settle(): void {
    isSettled = true;
    clearImmediate(asked);
    clearTimeout(timeoutTimer);
    clearTimeout(graceTimer);
    limits.stop.removeEventListener('abort', onStop);
    limits.kill?.removeEventListener('abort', onKill);
    // The script is gone; children that it left behind had the same warning.
    if (state.cause !== null) signalGroup(pid, 'SIGKILL');
  }
  return state;
}

/** Whether the process is there, or for a negative number any process of the group; zombies count. */
function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}

/** Processes that end together with their script have ended by then. */
const WAIT_MS = 50;
const POLL_MS = 5;

/** A process that goes on after its run. */
export interface LeftProcess {
  readonly pid: number;
  /** "sleep" */
  readonly name: string;
}

/**
 * The processes that a script has left behind: those in its group, and those that have left the group and its session,
 * which are found by the variables that they were started with. Empty without `/proc`. The check costs almost nothing
 * if there are none, as with most scripts.
 *
 * @param variables `NAME=value` texts that together no other run has
 */
export async function findLeft(leader: number, variables: readonly string[]): Promise<readonly LeftProcess[]> {
  const deadline = performance.now() + WAIT_MS;
  while (isThere(-leader) || listStartedWith(leader, variables).length > 0) {
    if (performance.now() > deadline) return listLeft(leader, variables);
    await sleep(POLL_MS);
  }
  return [];
}

function listLeft(leader: number, variables: readonly string[]): readonly LeftProcess[] {
  const pids = new Set([...listGroup(leader), ...listStartedWith(leader, variables)]);
  return [...pids].flatMap((pid) => {
    const name = readProcessName(pid);
    return name === null ? [] : [{ pid, name }];
  });
}
