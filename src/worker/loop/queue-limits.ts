import { statSync } from 'node:fs';
import prettyMilliseconds from 'pretty-ms';
import { sleepUntil } from '../../system/base/clock.ts';
import type { StopRequest, StoreInvocation } from '../invocation/invocation.ts';

/** Whether a worker may take more jobs. */
export type WorkLimits = ReturnType<typeof createWorkLimits>;

interface Ruled {
  readonly request: WorkRequest;
  readonly stop: StopRequest;
  readonly files: ReturnType<typeof createFileWatch>;
  readonly startedAt: number;
  /** Resident memory of the worker with its children; null if unknown. */
  readonly readMemoryBytes: () => number | null;
}

/** Shortest time between two looks at the files of a deploy, in milliseconds: some jobs take less. */
const NOTICE_MS = 10;

export function createWorkLimits({ request, stop, files, startedAt, readMemoryBytes }: Ruled) {
  const { forMs, maxJobs, maxMemoryBytes } = request;
  let taken = 0;
  let asked = 0;
  let noticedMs = 0;
  const notice = (): void => {
    const changed = files.findChanged();
    if (changed !== null) stop.startNothing(`${changed} has changed`);
  };
  const mostJobs = maxJobs ?? Number.POSITIVE_INFINITY;
  const leftMs = (): number => (forMs === null ? Number.POSITIVE_INFINITY : startedAt + forMs - performance.now());
  return {
    /** How long the worker still takes jobs, in milliseconds; infinite without a limit. */
    leftMs,
    /** Reserves up to `wanted` jobs for a claim; 0: none may be taken, at least not now. */
    reserve: (wanted: number): number => {
      if (leftMs() <= 0) stop.startNothing(`its time of ${prettyMilliseconds(forMs ?? 0)} is over`);
      if (stop.reason !== null) return 0;
      const reserved = Math.max(0, Math.min(wanted, mostJobs - taken - asked));
      asked += reserved;
      return reserved;
    },
    /** Ends a reservation of `reserved` jobs, of which `found` have run. */
    settle: (reserved: number, found: number): void => {
      asked -= reserved;
      taken += found;
      if (taken >= mostJobs) stop.startNothing(`it has run ${taken} ${taken === 1 ? 'job' : 'jobs'}`);
    },
    /** Call it before each job: the job after a deploy runs with what is new. */
    noticeDeploy: (): void => {
      if (performance.now() - noticedMs < NOTICE_MS) return;
      noticedMs = performance.now();
      notice();
    },
    /** Reads values that are too slow to read for each job. */
    look: (): void => {
      notice();
      if (maxMemoryBytes !== null && (readMemoryBytes() ?? 0) > maxMemoryBytes) {
        stop.startNothing('the worker and its children use more memory than allowed (--max-memory)');
      }
    },
  };
}

const ASK_AGAIN_MS = 250;

/** In an adaptive worker, only as many executors take jobs as the machine can bear. */
export function createPace(
  { stop }: Pick<StoreInvocation, 'stop'>,
  { isAdaptive, concurrency }: Pick<WorkRequest, 'isAdaptive' | 'concurrency'>,
) {
  const adaptive = createAdaptiveLimit({
    least: isAdaptive ? 1 : concurrency,
    most: concurrency,
    now: () => performance.now(),
  });
  let isOver = false;
  return {
    note: adaptive.note,
    /** Settles when the executor of this number may take a job; false: it is no longer needed. */
    admit: async (executor: number): Promise<boolean> => {
      const hasToWait = (): boolean => executor >= adaptive.limit();
      while (hasToWait() && stop.reason === null && !isOver) {
        await sleepUntil(stop.noMore, ASK_AGAIN_MS);
      }
      return stop.reason === null && !hasToWait();
    },
    /**
     * The executor of this number takes no more jobs. Once the first one leaves, which is always admitted, no waiting
     * one is needed.
     */
    leave: (executor: number): void => {
      isOver ||= executor === 0;
    },
  };
}

interface Bounds {
  readonly least: number;
  readonly most: number;
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number;
}

const WINDOW_MS = 10_000;
const SLOWER_FACTOR = 1.1;
const DECREASE_FACTOR = 0.8;

interface Window {
  readonly jobs: number;
  readonly totalMs: number;
}

const emptyWindow: Window = { jobs: 0, totalMs: 0 };

/**
 * Finds out how many jobs at the same time a machine can bear: one more at a time while jobs take no longer than
 * before, a fifth fewer when they do (additive increase, multiplicative decrease).
 */
export function createAdaptiveLimit({ least, most, now }: Bounds) {
  let target = least;
  let began = now();
  let previous = emptyWindow;
  let current = emptyWindow;
  const turn = (): void => {
    if (now() - began < WINDOW_MS) return;
    if (isSlower(current, previous)) target = Math.max(target * DECREASE_FACTOR, least);
    else if (current.jobs > 0) target = Math.min(target + 1, most);
    previous = current;
    current = emptyWindow;
    began = now();
  };
  return {
    /** How many jobs may run now. */
    limit: (): number => {
      turn();
      return Math.floor(target);
    },
    /** Call it when a job has ended, with its duration. */
    note: (durationMs: number): void => {
      turn();
      current = { jobs: current.jobs + 1, totalMs: current.totalMs + durationMs };
    },
  };
}

function isSlower(current: Window, previous: Window): boolean {
  if (current.jobs === 0 || previous.jobs === 0) return false;
  return current.totalMs / current.jobs > (previous.totalMs / previous.jobs) * SLOWER_FACTOR;
}

/** Notices a deploy. */
export function createFileWatch(paths: readonly string[]) {
  const before = new Map(paths.map((path) => [path, markOf(path)]));
  return {
    /** The path of a file that was changed, made or removed since; null: none. */
    findChanged: (): string | null => paths.find((path) => markOf(path) !== before.get(path)) ?? null,
  };
}

/** A file that cannot be read counts as missing. */
function markOf(path: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(path);
    return `${ino} ${size} ${mtimeMs}`;
  } catch {
    return 'missing';
  }
}

/** The task of a queue worker, and its limits. */
export interface WorkRequest {
  /** Globs over job names; empty: all names that have a handler. */
  readonly patterns: readonly string[];
  /** How many jobs run at the same time. */
  readonly concurrency: number;
  /** Whether it finds its own number of jobs at the same time, up to `concurrency`. */
  readonly isAdaptive: boolean;
  /** After this time it takes no further job; null: no limit. */
  readonly forMs: number | null;
  /** How long to wait for a job when none is due; null: until the end of `forMs`. */
  readonly waitMs: number | null;
  readonly maxJobs: number | null;
  /** The worker takes no more jobs once its own resident memory and that of its children exceed this. */
  readonly maxMemoryBytes: number | null;
  /** Load average above which it takes no job; null: the settings decide. */
  readonly maxLoad: number | null;
  /** Whether jobs whose name has no handler here fail, instead of waiting for a machine that has one. */
  readonly failsUnknown: boolean;
  /** Files whose change makes the worker finish: a deploy. */
  readonly watchedFiles: readonly string[];
}
