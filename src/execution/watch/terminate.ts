import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../system/base/errors.ts';
import { listGroup, listStartedWith, readProcessName } from '../../system/process/tree.ts';
import type { RunRequest } from '../start/process.ts';

/** Time that a script has between SIGTERM and SIGKILL. */
export const GRACE_MS = 10_000;

/** Why a run is ended before it ends by itself. */
export type Cause = 'timeout' | 'stop' | 'memory' | 'hung';

export interface Termination {
  /** Null while nothing has asked for its end. */
  readonly cause: Cause | null;
  /** Whether SIGTERM did not suffice. */
  readonly killed: boolean;
  /** Only the first cause counts. */
  terminate(cause: Cause): void;
  /** Call it when the run's process has ended. */
  settle(): void;
}

/**
 * Sends SIGTERM to the whole group at the time limit, at a stop, or for another cause; SIGKILL after the grace period.
 * A hanging process cannot react, so it gets SIGKILL at once.
 */
export function watchLimits(pid: number, limits: RunRequest): Termination {
  const state = { cause: null as Cause | null, killed: false, terminate, settle };
  let asked: NodeJS.Immediate | undefined;
  let graceTimer: NodeJS.Timeout | undefined;
  const timeoutTimer = setTimeout(() => terminate('timeout'), limits.timeoutMs);
  const onStop = (): void => terminate('stop');
  if (limits.stop.aborted) onStop();
  else limits.stop.addEventListener('abort', onStop, { once: true });
  const onKill = (): void => signalGroup(pid, 'SIGKILL');
  limits.kill?.addEventListener('abort', onKill, { once: true });

  // A runner that stood still (SIGSTOP, a locked log) sees its timers first, and only then that the process ended
  // before them. Such an end was not caused by the runner.
  function terminate(cause: Cause): void {
    asked ??= setImmediate(() => begin(cause));
  }
  function begin(cause: Cause): void {
    if (!isThere(pid)) return;
    state.cause = cause;
    signalGroup(pid, cause === 'hung' ? 'SIGKILL' : 'SIGTERM');
    graceTimer = setTimeout(() => {
      state.killed = true;
      signalGroup(pid, 'SIGKILL');
    }, limits.graceMs);
  }
  function settle(): void {
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

/** The group is the run's own, because the run was started as its leader; no other process is hit. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    // EPERM: the rest of the group runs as another user, as after `exec sudo`.
    if (!['ESRCH', 'EPERM'].includes(errorCode(error))) throw error;
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
