import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { checkLiveness, isStartKnown, type ProcessIdentity } from '../process/identity.ts';

/** The holder of a lock, as the lock file names it. */
export interface LockHolder extends ProcessIdentity {
  readonly since: number;
}

/** The file of a lock's holder. */
export interface HolderFile {
  /** Null if the file is unreadable: a power loss cut it off. */
  readonly holder: LockHolder | null;
  /** The holder's last sign of life, by the clock of the file system. */
  readonly lastSeenAt: number;
}

/** How long a lock without a refresh still counts as held. */
export interface LockTiming {
  readonly refreshMs: number;
  /** For a holder that cannot be seen from here; far above any pause of a throttled host. */
  readonly staleMs: number;
  /** For a holder whose pid a process has, while no `/proc` can prove that it is the same process. */
  readonly unprovenMs: number;
}

export const usualTiming: LockTiming = {
  refreshMs: 10_000,
  staleMs: 60_000,
  unprovenMs: 15 * 60_000,
};

/**
 * A holder that can be seen from here is alive or dead by its identity, however old its lock is. For any other holder
 * the age of the lock decides, by the file system's clock: hosts that share a file system need not agree about the
 * time.
 */
export function isHolderAlive({ holder, lastSeenAt }: HolderFile, readNow: () => number, timing: LockTiming): boolean {
  const liveness = holder === null ? 'dead' : checkLiveness(holder);
  if (holder === null || liveness === 'dead') return false;
  if (liveness === 'alive' && isStartKnown(holder)) return true;
  // A time far ahead proves as little as one far back: somebody has set the clock.
  const age = Math.abs(readNow() - lastSeenAt);
  return age < (liveness === 'alive' ? timing.unprovenMs : timing.staleMs);
}

const MOST_BYTES = 64 * 1024;

/** Reads a holder's file; null if it is gone. */
export function readHolderFile(path: string): HolderFile | null {
  try {
    // Opening matters: only then does an NFS client ask the server for the file's time.
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

/** ESTALE: another host has just removed the file from a network file system. */
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
  // A time ahead of now means that the clock was set back since.
  const at = Math.min(dead.lastSeenAt, now);
  return `pid ${dead.holder.pid} on ${dead.holder.host}, dead since ${toText(at)} (its last sign of life)`;
}

/** A dead holder whose identity is known. */
export type DeadHolder = HolderFile & { readonly holder: LockHolder };

const toText = (at: number): string => new Date(at).toISOString();
