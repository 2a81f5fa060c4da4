import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/** Tells one process from every other, across reused pids, reboots and machines. */
export interface ProcessIdentity {
  readonly host: string;
  /** Changes with each boot; null without `/proc`. */
  readonly bootId: string | null;
  readonly pid: number;
  /** When the process started, in clock ticks since boot; null without `/proc`. */
  readonly startTicks: number | null;
}

export type Liveness = 'alive' | 'dead' | 'on-another-host';

export function identifyProcess(pid: number): ProcessIdentity {
  return { host: hostname(), bootId: readBootId(), pid, startTicks: readStartTicks(pid) };
}

/** Whether that very process still runs. Another host's can't be seen from here. */
export function checkLiveness(process: ProcessIdentity): Liveness {
  if (process.host !== hostname()) return 'on-another-host';
  if (differs(process.bootId, readBootId())) return 'dead';
  if (!existsProcess(process.pid) || isZombie(process.pid)) return 'dead';
  return differs(process.startTicks, readStartTicks(process.pid)) ? 'dead' : 'alive';
}

/** When the process started, in clock ticks since boot; null where it is gone or unknown. */
export function readStartTicks(pid: number): number | null {
  const fields = readStatFields(pid);
  return fields === null ? null : Number(fields[19]);
}

/**
 * The fields of `/proc/<pid>/stat` from the third (state) on. The second, the program's name, may
 * itself hold spaces and parentheses: only what follows the last parenthesis can be split.
 */
export function readStatFields(pid: number): string[] | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}

function readBootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    return null;
  }
}

/** Dead, but nobody has asked for its exit code yet: a signal still reaches it. */
function isZombie(pid: number): boolean {
  return readStatFields(pid)?.[0] === 'Z';
}

/** An unknown figure proves nothing; only two known ones can differ. */
function differs<T>(one: T | null, other: T | null): boolean {
  return one !== null && other !== null && one !== other;
}

function existsProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it exists, and is somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
