import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { checkLiveness, isStartKnown, type ProcessIdentity } from '../process/identity.ts';

/** Who holds a lock, as it is written in it. */
export interface LockHolder extends ProcessIdentity {
  readonly since: number;
}

/** A holder's file. */
export interface HolderFile {
  /** Null where the file makes no sense: cut off by a power loss. */
  readonly holder: LockHolder | null;
  /** The holder's last sign of life, by the clock of the file system. */
  readonly lastSeenAt: number;
}

/** How long a lock is believed that is not refreshed. */
export interface LockTiming {
  readonly refreshMs: number;
  /** Of a holder that cannot be seen from here; far above any pause of a throttled host. */
  readonly staleMs: number;
  /** Where a process has the holder's pid, but may be another one, as there is no `/proc` to ask. */
  readonly unprovenMs: number;
}

export const usualTiming: LockTiming = {
  refreshMs: 10_000,
  staleMs: 60_000,
  unprovenMs: 15 * 60_000,
};

/**
 * A holder that can be seen from here is judged by who it is, however old its lock. Of any other the
 * lock's age tells, by the file system's clock: hosts that share one need not agree about the time.
 */
export function isHolderAlive({ holder, lastSeenAt }: HolderFile, readNow: () => number, timing: LockTiming): boolean {
  const liveness = holder === null ? 'dead' : checkLiveness(holder);
  if (holder === null || liveness === 'dead') return false;
  if (liveness === 'alive' && isStartKnown(holder)) return true;
  // A time far ahead proves no more than one far back: somebody has set the clock.
  const age = Math.abs(readNow() - lastSeenAt);
  return age < (liveness === 'alive' ? timing.unprovenMs : timing.staleMs);
}

const MOST_BYTES = 64 * 1024;

/** What a holder's file says; null when it is gone. */
export function readHolderFile(path: string): HolderFile | null {
  try {
    // Opened, not only looked at: on opening, an NFS client asks the server for the file's time.
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = fstatSync(file);
      // A pipe, device, folder or oversized file was not written by a runner.
      const text = stats.isFile() && stats.size <= MOST_BYTES ? readFileSync(file, 'utf8') : '';
      return { holder: parseHolder(text), lastSeenAt: Math.round(stats.mtimeMs) };
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

/** ESTALE: another host has just removed it from a network file system. */
function isGone(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ESTALE'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function parseHolder(text: string): LockHolder | null {
  try {
    const holder = JSON.parse(text) as LockHolder | null;
    return typeof holder?.host === 'string' && holder.pid > 0 ? holder : null;
  } catch {
    return null;
  }
}

/** "pid 4711 on web3, since 2026-11-01T10:00:00.000Z" */
export function describeHolder({ pid, host, since }: LockHolder): string {
  return `pid ${pid} on ${host}, since ${toText(since)}`;
}

/** "pid 4711 on web3, dead since 2026-11-01T10:00:00.000Z (its last sign of life)" */
export function describeDead(dead: DeadHolder, now: number): string {
  // Ahead of now: the clock was set back meanwhile.
  const at = Math.min(dead.lastSeenAt, now);
  return `pid ${dead.holder.pid} on ${dead.holder.host}, dead since ${toText(at)} (its last sign of life)`;
}

/** A dead holder of whom it is known who it was. */
export type DeadHolder = HolderFile & { readonly holder: LockHolder };

const toText = (at: number): string => new Date(at).toISOString();
